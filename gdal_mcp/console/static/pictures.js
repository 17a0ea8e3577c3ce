// Pictures of outputs, asked for when they come into view: each may take a container. And their download.

import * as api from "./api.js";
import { el, say } from "./dom.js";

const made = new Map(); // number -> object URL, for as long as the page is open
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    load(entry.target);
  }
});

export function picture(one) {
  const frame = el("div", { class: "picture", "data-number": one.id, role: "img", "aria-label": `Preview of ${one.name}` });
  watcher.observe(frame);
  return frame;
}

async function load(frame) {
  const number = frame.dataset.number;
  frame.dataset.state = "loading";
  try {
    if (!made.has(number)) made.set(number, await api.picture(number));
    const image = el("img", { alt: "" });
    image.src = made.get(number);
    frame.replaceChildren(image);
    frame.dataset.state = "shown";
  } catch {
    frame.dataset.state = "none";
    frame.textContent = "no preview";
  }
}

export function downloadButton(one) {
  const button = el("button", { type: "button", "data-act": "download", "aria-label": `Download ${one.name}` }, "Download");
  button.addEventListener("click", async () => {
    try { await api.download(one.id); } catch (error) { say(error.message, "bad"); }
  });
  return button;
}
