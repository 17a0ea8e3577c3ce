// Elements from data. Every text becomes a text node or an attribute that holds text: nothing here makes markup.

const PLAIN = new Set(["class", "id", "href", "type", "name", "value", "for", "role", "title", "tabindex", "colspan",
  "placeholder", "datetime", "max", "alt", "download", "autocomplete", "scope", "rel"]);

export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (name.startsWith("aria-") || name.startsWith("data-") || PLAIN.has(name)) made.setAttribute(name, String(value));
    else if (name === "disabled" || name === "hidden" || name === "open" || name === "checked") made[name] = Boolean(value);
    else throw new Error(`no attribute ${name} here`);
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
}

// A table whose cells know their column, so that a phone can show each row as a list.
export function table(caption, heads, rows) {
  const body = rows.map((row) => el("tr", {}, row.map((cell, at) => el("td", { "data-label": heads[at] }, cell))));
  return el("table", {},
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, body));
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  let left = count;
  for (const unit of ["bytes", "KiB", "MiB", "GiB"]) {
    if (left < 1024 || unit === "GiB") return unit === "bytes" ? `${left} bytes` : `${left.toFixed(1)} ${unit}`;
    left /= 1024;
  }
}

export function seconds(count) {
  if (count === null || count === undefined) return "";
  if (count < 1) return `${Math.round(count * 1000)} ms`;
  return count < 120 ? `${count.toFixed(1)} s` : `${Math.round(count / 60)} min`;
}

export function when(epoch) {
  const at = new Date(epoch * 1000);
  return el("time", { datetime: at.toISOString(), title: at.toISOString() }, at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }));
}

// The time of day, where the day is already shown.
export function clock(epoch) {
  const at = new Date(epoch * 1000);
  return el("time", { datetime: at.toISOString(), title: at.toISOString() }, at.toLocaleTimeString(undefined, { timeStyle: "medium" }));
}

// A command as a shell would take it, so that a person can read where each word ends.
export function command(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

// A path, which may be broken after its slashes.
export function path(text) {
  return text.split(/(?<=\/)/).flatMap((part) => [part, el("wbr")]);
}

export function places(title, rows, more) {
  if (!rows.length) return null;
  return el("div", {}, el("h3", {}, title), el("ul", { class: "places" }, rows.map((one) => el("li", {}, typeof one === "string" ? path(one) : one)), more ? el("li", {}, `and ${more} more`) : null));
}

export function callLink(id, text) {
  return el("a", { href: `#/call/${encodeURIComponent(id)}` }, text);
}

// The steps of a call that is a workflow.
export function stepsLink(tool, id) {
  return tool === "workflow_run" && el("a", { href: `#/workflow/${encodeURIComponent(id)}` }, "Steps");
}

// True if a question is still open, as far as this page knows.
export function isOpen(id, state) {
  return !state.loaded || state.pending.some((one) => one.id === id);
}

export function outcome(one, state) {
  if (one.undone) return el("span", { class: "badge going" }, "undone");
  if (one.outcome === "WAITING") return el("span", { class: "badge going" }, isOpen(one.question || one.receipt?.question, state) ? "waiting for approval" : "asked for approval");
  const kind = one.outcome === "OK" ? "good" : one.outcome === "" ? "going" : "bad";
  return el("span", { class: `badge ${kind}` }, one.outcome || "running");
}

// A button that has to be pressed twice, for actions that are hard to undo.
export function confirmButton(text, sure, action) {
  let armed = 0;
  const button = el("button", { type: "button", class: "careful" }, text);
  button.addEventListener("click", async () => {
    if (!armed) {
      armed = setTimeout(() => { armed = 0; button.textContent = text; }, 6000);
      button.textContent = sure;
      return;
    }
    clearTimeout(armed);
    button.disabled = true;
    try { await action(button); } finally { armed = 0; button.disabled = false; button.textContent = text; }
  });
  return button;
}

export function say(text, kind = "info") {
  const toast = el("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), kind === "bad" ? 8000 : 4000);
}

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
