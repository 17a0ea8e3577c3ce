// What calls made: a gallery, and where on earth it lies.

import { get } from "./api.js";
import { bytes, el, say, when } from "./dom.js";
import { makeMap } from "./map.js";
import { downloadButton, picture } from "./pictures.js";

export function outputs(main) {
  const tiles = el("div", { class: "tiles", id: "tiles" });
  const more = el("button", { type: "button", hidden: true }, "Older outputs");
  const place = el("section", { class: "map-place", "aria-label": "Map of the outputs" });
  let next = null;
  let map = null;

  async function load() {
    try {
      const found = await get(next ? `outputs?cursor=${encodeURIComponent(next)}` : "outputs");
      next = found.next;
      more.hidden = !next;
      tiles.append(...found.outputs.map((one) => tile(one, () => map && map.look(one))));
      if (!tiles.children.length) tiles.append(el("p", { class: "empty" }, "No call has published anything yet."));
      const located = found.outputs.filter((one) => one.wgs84.length);
      if (located.length && !map) map = await makeMap(place);
      if (map) map.add(located);
    } catch (error) {
      say(error.message, "bad");
    }
    tiles.dataset.loaded = "true";
  }

  more.addEventListener("click", load);
  main.append(el("h1", {}, "Outputs"), place, tiles, more);
  load();
  return { close: () => map && map.close() };
}

function tile(one, look) {
  const see = el("button", { type: "button", class: "quiet", on: { click: look } }, "On the map");
  return el("article", { class: "tile", "data-number": one.id },
    one.pictured ? picture(one) : el("div", { class: "picture", "data-state": "none" }, one.folder ? "folder" : "file"),
    el("h3", { title: one.path }, one.name),
    el("p", {}, bytes(one.bytes), ", ", when(one.created)),
    el("div", { class: "row" }, one.folder ? null : downloadButton(one), one.wgs84.length ? see : null,
      el("a", { href: `#/call/${encodeURIComponent(one.call)}` }, "Record")));
}
