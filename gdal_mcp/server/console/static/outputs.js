// The outputs of calls: a gallery and a map.

import { get, post } from "./api.js";
import { bytes, callLink, el, say, when } from "./dom.js";
import { makeMap } from "./map.js";
import { downloadButton, enlarge, picture, pictureUrl } from "./pictures.js";

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
      if (located.length && !map) map = await mapIn(place);
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

async function mapIn(place) {
  const [leaflet, land] = await library();
  return makeMap(place, {
    leaflet, land, open,
    pictureOf: (one) => pictureUrl(`pictures/${one.id}`),
    legendOf: (one) => get(`legends/${one.id}`),
    valuesAt: (one, position) => post(`values/${one.id}`, { position }),
  });
}

function open(one) {
  if (one.pictured) enlarge(`pictures/${one.id}`, one.name, about(one));
  else location.hash = `#/call/${encodeURIComponent(one.call)}`;
}

// Format, size and CRS of an output, as far as its call recorded them.
export function about(one) {
  const features = Number.isInteger(one.features) && `${one.features.toLocaleString()} ${one.features === 1 ? "feature" : "features"}`;
  return [one.driver, one.size ? `${one.size[0]} × ${one.size[1]} pixels` : features, one.crs, bytes(one.bytes)].filter(Boolean).join(", ");
}

function tile(one, look) {
  const see = el("button", { type: "button", class: "quiet", "aria-label": `Show ${one.name} on the map`, on: { click: look } }, "Show on map");
  return el("article", { class: "tile", "data-number": one.id },
    one.pictured ? picture(`pictures/${one.id}`, one.name, about(one)) : el("div", { class: "picture", "data-state": "none" }, one.folder ? "Folder" : "File"),
    el("h3", { title: one.path }, one.name),
    el("p", {}, about(one)),
    el("p", {}, one.tool ? `${one.tool}, ` : "", when(one.created)),
    el("div", { class: "row" }, one.folder ? null : downloadButton(one), one.wgs84.length ? see : null, callLink(one.call, "Details")));
}

export const MAP_SCRIPT = new URL("vendor/leaflet.js", document.baseURI).href;
let loading = null;

// The map's library and the land, when a map is first needed, since most visits need none.
function library() {
  loading ??= Promise.all([new Promise((done, failed) => {
    const style = el("link", { rel: "stylesheet", href: "vendor/leaflet.css" });
    const script = document.createElement("script");
    script.src = MAP_SCRIPT;
    script.addEventListener("load", () => done(window.L));
    script.addEventListener("error", () => failed(new Error("The map could not be loaded.")));
    document.head.prepend(style);
    document.head.append(script);
  }), fetch("vendor/land.json").then((found) => found.json())]);
  return loading;
}
