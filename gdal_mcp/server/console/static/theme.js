// The theme of the system, or the one that the user chose.

const CHOSEN = "gdal-mcp-console-theme";
const ORDER = ["auto", "light", "dark"];

export function setUpTheme(button) {
  const set = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    localStorage.setItem(CHOSEN, name);
  };
  const kept = localStorage.getItem(CHOSEN);
  set(ORDER.includes(kept) ? kept : "auto");
  button.addEventListener("click", () => {
    const now = localStorage.getItem(CHOSEN);
    set(ORDER[(ORDER.indexOf(now) + 1) % ORDER.length]);
  });
}
