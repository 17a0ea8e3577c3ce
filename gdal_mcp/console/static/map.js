// A map without tiles: the world's land as an outline that came with the page, a graticule, and boxes of outputs in WGS 84.

import { el } from "./dom.js";
import { MAP_SCRIPT } from "./trusted.js";

const STEP = 30; // degrees between two lines of the graticule

export async function makeMap(place) {
  const [leaflet, land] = await Promise.all([library(), fetch("vendor/land.json").then((found) => found.json())]);
  const ground = el("div", { class: "map", id: "map" });
  const buttons = el("div", { class: "row" });
  place.append(el("h2", {}, "Where they lie"), ground, buttons);
  const map = leaflet.map(ground, { crs: leaflet.CRS.EPSG4326, zoomControl: false, attributionControl: false, minZoom: -1, maxZoom: 18, zoomSnap: 0.25, maxBounds: [[-120, -260], [120, 260]] });
  leaflet.polygon(land.rings, { className: "land", interactive: false, smoothFactor: 0.5 }).addTo(map);
  for (const line of graticule()) leaflet.polyline(line, { className: "grid", interactive: false }).addTo(map);
  map.fitBounds([[-80, -180], [85, 180]]);
  const act = (text, action) => el("button", { type: "button", class: "quiet", on: { click: action } }, text);
  buttons.append(act("Zoom in", () => map.zoomIn()), act("Zoom out", () => map.zoomOut()), act("Whole world", () => map.fitBounds([[-80, -180], [85, 180]])));
  return {
    add: (outputs) => { for (const one of outputs) for (const box of one.wgs84) draw(leaflet, map, one, box); },
    look: (one) => { map.fitBounds(one.wgs84.flatMap(halves), { maxZoom: 8, padding: [20, 20] }); ground.scrollIntoView({ block: "nearest" }); },
    close: () => map.remove(),
  };
}

function draw(leaflet, map, one, box) {
  const open = () => { location.hash = `#/call/${encodeURIComponent(one.call)}`; };
  for (const bounds of halves(box)) {
    const name = el("span", {}, one.name);
    leaflet.rectangle(bounds, { className: "box" }).bindTooltip(name, { sticky: true }).on("click", open).addTo(map);
    const middle = leaflet.latLngBounds(bounds).getCenter();
    leaflet.circleMarker(middle, { radius: 4, className: "spot" }).bindTooltip(name.cloneNode(true)).on("click", open).addTo(map);
  }
}

// [west, south, east, north] as corners; one that crosses the antimeridian as two.
function halves([west, south, east, north]) {
  if (west <= east) return [[[south, west], [north, east]]];
  return [[[south, west], [north, 180]], [[south, -180], [north, east]]];
}

function graticule() {
  const lines = [];
  for (let at = -180; at <= 180; at += STEP) lines.push([[-90, at], [90, at]]);
  for (let at = -90; at <= 90; at += STEP) lines.push([[at, -180], [at, 180]]);
  return lines;
}

let loading = null;

// When a map is first needed, since most visits need none.
function library() {
  loading ??= new Promise((done, failed) => {
    const style = el("link", { rel: "stylesheet", href: "vendor/leaflet.css" });
    const script = document.createElement("script");
    script.src = MAP_SCRIPT;
    script.addEventListener("load", () => done(window.L));
    script.addEventListener("error", () => failed(new Error("The map could not be loaded.")));
    document.head.prepend(style);
    document.head.append(script);
  });
  return loading;
}
