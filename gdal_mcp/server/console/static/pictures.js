// Pictures of datasets, requested when they come into view: each may take a container. And downloads.

import * as api from "./api.js";
import { el, say } from "./dom.js";

const made = new Map(); // address below api/ -> promise of an object URL, for as long as the page is open
let latest = Promise.resolve(); // the server draws one at a time; more requests would hold up decisions

export function pictureUrl(path) {
  if (!made.has(path)) {
    const asked = latest.then(() => api.picture(path));
    made.set(path, asked);
    latest = asked.catch(() => made.delete(path));
  }
  return made.get(path);
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    load(entry.target);
  }
});

// A button that shows the picture, and opens it large.
export function picture(path, name, about) {
  const frame = el("button", { type: "button", class: "picture", disabled: true, "data-path": path, "aria-label": `Enlarge the preview of ${name}`,
    on: { click: () => enlarge(path, name, about) } });
  watcher.observe(frame);
  return frame;
}

async function load(frame) {
  frame.dataset.state = "loading";
  try {
    const image = el("img", { alt: "" });
    image.src = await pictureUrl(frame.dataset.path);
    frame.replaceChildren(image);
    frame.dataset.state = "shown";
    frame.disabled = false;
  } catch {
    frame.dataset.state = "none";
    frame.textContent = "No preview";
  }
}

export async function enlarge(path, name, about) {
  const image = el("img", { alt: `Preview of ${name}` });
  const dialog = el("dialog", { class: "large", "aria-label": name }, image, el("h2", {}, name), el("p", { class: "note" }, about),
    el("button", { type: "button", on: { click: () => dialog.close() } }, "Close"));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside the picture
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try { image.src = await pictureUrl(path); } catch (error) { dialog.close(); say(error.message, "bad"); }
}

export function downloadButton(one) {
  const button = el("button", { type: "button", class: "quiet", "data-act": "download", "aria-label": `Download ${one.name}` }, "Download");
  button.addEventListener("click", async () => {
    try { await api.download(one.id); } catch (error) { say(error.message, "bad"); }
  });
  return button;
}
