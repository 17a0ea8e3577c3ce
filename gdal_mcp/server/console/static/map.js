// A map without tiles: the world's land as an outline that came with the page, a graticule, and outputs with their pictures, in WGS 84.
// The console and the panel in a chat use it: each supplies the library and the pictures.

import { el, fill } from "./dom.js";

const STEP = 30; // degrees between two lines of the graticule
const WORLD = [[-80, -180], [85, 180]];
const CLOSEST = 15; // zoom of an output that is a point; a pixel is about 2 m there
const SEEN = 24; // pixels: smaller boxes are dots, and get no picture
const GEOGRAPHIC = new Set(["EPSG:4326", "OGC:CRS84", "EPSG:4258", "EPSG:4269", "EPSG:4979"]); // pictures that fit their box exactly
const MARGIN = 0.03; // of the longer side, which a picture of features has around them

// `pictureOf` promises the address of an output's picture; `open` is called with an output that is clicked. `legendOf` promises how its values
// became colours, and `valuesAt` its values at a longitude and latitude, where a page has them.
export function makeMap(place, { leaflet, land, pictureOf, open, legendOf, valuesAt }) {
  const ground = el("div", { class: "map", id: "map" });
  const position = el("span", { id: "position" });
  const scale = el("span", { class: "scale", id: "scale" });
  const inexact = el("p", { class: "note", hidden: true }, "Pictures of projected data are stretched to fit their extent, so positions within them are approximate.");
  const buttons = el("div", { class: "row" });
  const layers = el("div", { class: "row layers" });
  const legend = el("details", { class: "layer-list", hidden: true }, el("summary", {}, "Layers"), layers);
  place.append(el("h2", {}, "Map"), ground, el("div", { class: "row map-facts" }, scale, position), buttons, legend,
    el("p", { class: "note" }, "The outline of the land is coarse: it may be several kilometres off."), inexact);
  const map = leaflet.map(ground, { crs: leaflet.CRS.EPSG4326, zoomControl: false, attributionControl: false, minZoom: -1, maxZoom: 18, zoomSnap: 0.25, maxBounds: [[-120, -260], [120, 620]] });
  map.createPane("ground").style.zIndex = 300;
  map.createPane("pictures").style.zIndex = 350;
  drawWorld(leaflet, map, land.rings);
  const shown = [];
  const identify = identifier(valuesAt);
  const tell = (at, what) => { position.textContent = `${what} ${degrees(at.lat, "N", "S")}, ${degrees(at.wrap().lng, "E", "W")}`; };
  map.on("mousemove", (event) => tell(event.latlng, "Pointer:"));
  map.on("moveend", () => {
    tell(map.getCenter(), "Centre:");
    drawScale(map, scale);
    for (const one of shown) one.refresh();
  });
  const fit = (some) => map.fitBounds(leaflet.latLngBounds(some.flatMap((one) => one.bounds)), { maxZoom: CLOSEST, padding: [20, 20] });
  map.fitBounds(WORLD);
  const act = (text, action) => el("button", { type: "button", class: "quiet", on: { click: action } }, text);
  buttons.append(act("Zoom in", () => map.zoomIn()), act("Zoom out", () => map.zoomOut()), act("Fit outputs", () => fit(shown)), act("Whole world", () => map.fitBounds(WORLD)), identify.button);
  if (valuesAt) place.append(identify.answer);
  return {
    add: (outputs) => {
      for (const one of outputs) {
        const drawn = one.wgs84.map((box) => draw(leaflet, map, one, corners(box), { pictureOf, inexact, click: (at) => identify.on() ? identify.ask(one, at) : open(one) }));
        shown.push(...drawn);
        layers.append(layer(one, drawn, legendOf));
        legend.hidden = false;
      }
      if (outputs.length) fit(shown);
      map.fire("moveend"); // also when the map stays where it is
    },
    look: (one) => { fit(shown.filter((each) => each.output === one)); ground.scrollIntoView({ block: "center" }); },
    close: () => map.remove(),
  };
}

// A switch that shows or hides one output, with the legend of its picture once that is drawn.
function layer(output, drawn, legendOf) {
  const box = el("input", { type: "checkbox", checked: true, on: { change: () => { for (const one of drawn) one.show(box.checked); } } });
  const legend = el("span", { class: "legend" });
  for (const one of drawn) one.onDraped(async () => {
    try { if (legendOf) fill(legend, legendRows(await legendOf(output))); } catch { /* a picture from before there were legends */ }
  });
  return el("span", { class: "layer" }, el("label", { title: output.path, "data-layer": output.id }, box, ` ${output.name}`), legend);
}

const CHANNELS = ["Red", "Green", "Blue"];

// What black and white stand for, or the lowest and highest value of each colour.
function legendRows({ color, bands, stretch }) {
  if (color === "hillshade") return ["hillshade"];
  return (stretch || []).map(([low, high], at) => [
    stretch.length > 1 ? `${CHANNELS[at] || "Band"} (band ${bands[at]}) ` : bands.length ? `Band ${bands[0]} ` : "",
    el("span", { class: "low" }, String(low)), el("span", { class: `ramp ${stretch.length > 1 ? CHANNELS[at]?.toLowerCase() : "gray"}`, role: "img", "aria-label": "from dark to light" }), el("span", { class: "high" }, String(high)), " "]);
}

// Reads the values where an output is clicked, while its button is pressed.
function identifier(valuesAt) {
  const answer = el("p", { id: "values", role: "status" });
  const button = valuesAt && el("button", { type: "button", class: "quiet", id: "identify", "aria-pressed": "false" }, "Identify");
  if (button) button.addEventListener("click", () => button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true")));
  const on = () => button && button.getAttribute("aria-pressed") === "true";
  async function ask(output, at) {
    const { lat, lng } = at.wrap();
    const where = `${output.name} at ${degrees(lat, "N", "S")}, ${degrees(lng, "E", "W")}`;
    answer.textContent = `${where}: reading…`;
    try {
      const { bands } = await valuesAt(output, [lng, lat]);
      answer.textContent = `${where}: ${bands.map((one) => bands.length > 1 ? `band ${one.band} = ${one.value}` : one.value).join(", ")}`;
    } catch (error) {
      answer.textContent = `${where}: ${error.message}`;
    }
  }
  return { button: button || "", answer, on, ask };
}

// A box with its name and, once it is large enough on the screen, its picture.
function draw(leaflet, map, output, bounds, { pictureOf, click: clicked, inexact }) {
  const name = () => el("span", {}, output.name);
  const click = (event) => clicked(event.latlng);
  const draped = [];
  const box = leaflet.rectangle(bounds, { className: "box" }).bindTooltip(name(), { sticky: true }).on("click", click).addTo(map);
  const spot = leaflet.circleMarker(box.getBounds().getCenter(), { radius: 5, className: "spot" }).bindTooltip(name()).on("click", click);
  let asked = !output.pictured || output.wgs84.length > 1; // one picture shows all layers, in no single box
  let visible = true;
  let image = null;

  async function drape() {
    asked = true;
    try {
      const loaded = new Image();
      loaded.src = await pictureOf(output);
      await loaded.decode();
      for (const action of draped) action();
      const within = output.size ? bounds : widened(bounds, loaded);
      image = leaflet.imageOverlay(loaded.src, within, { pane: "pictures", zIndex: output.id });
      if (!visible) return;
      image.addTo(map);
      box.getElement().classList.add("draped");
      if (!GEOGRAPHIC.has(output.crs)) inexact.hidden = false;
    } catch { /* no picture of it, or the map is closed: the box stays */ }
  }

  function show(on) {
    visible = on;
    for (const one of [box, spot, image].filter(Boolean)) one.remove();
    if (!on) return;
    box.addTo(map);
    if (image) { image.addTo(map); box.getElement().classList.add("draped"); }
    refresh();
  }

  function refresh() {
    if (!visible) return;
    const [from, to] = bounds.map((one) => map.latLngToLayerPoint(one));
    const large = Math.max(Math.abs(to.x - from.x), Math.abs(to.y - from.y)) >= SEEN;
    if (large) spot.remove(); else spot.addTo(map);
    if (large && !asked && map.getBounds().intersects(bounds)) drape();
  }

  return { output, bounds, refresh, show, onDraped: (action) => draped.push(action) };
}

// A picture of features has a margin around their box.
function widened([[south, west], [north, east]], { naturalWidth: width, naturalHeight: height }) {
  const margin = Math.max(width, height) * MARGIN / (1 + 2 * MARGIN);
  const across = (east - west) * margin / (width - 2 * margin);
  const along = (north - south) * margin / (height - 2 * margin);
  return [[south - along, west - across], [north + along, east + across]];
}

// [west, south, east, north] as corners. One that crosses the antimeridian goes on east of 180.
function corners([west, south, east, north]) {
  return [[south, west], [north, west <= east ? east : east + 360]];
}

function degrees(value, positive, negative) {
  return `${Math.abs(value).toFixed(4)}° ${value < 0 ? negative : positive}`;
}

// Along the parallel through the middle of the map.
function drawScale(map, bar) {
  const { x, y } = map.getSize().divideBy(2);
  const metres = Math.max(map.distance(map.containerPointToLatLng([x - 50, y]), map.containerPointToLatLng([x + 50, y])) / 100, 0.01); // of a pixel
  const most = metres * 120;
  const power = 10 ** Math.floor(Math.log10(most));
  const round = [5, 2, 1].find((one) => one * power <= most) * power;
  bar.style.width = `${round / metres}px`;
  bar.textContent = round >= 1000 ? `${round / 1000} km` : `${round} m`;
}

// The world, and once more to its east for what crosses the antimeridian.
function drawWorld(leaflet, map, land) {
  for (const shift of [0, 360]) {
    leaflet.polygon(land.map((part) => part.map((ring) => ring.map(([lat, lng]) => [lat, lng + shift]))), { pane: "ground", className: "land", interactive: false, smoothFactor: 0.5 }).addTo(map);
  }
  const line = (ends) => leaflet.polyline(ends, { pane: "ground", className: "grid", interactive: false }).addTo(map);
  for (let at = -180; at <= 540; at += STEP) line([[-90, at], [90, at]]);
  for (let at = -90; at <= 90; at += STEP) line([[at, -180], [at, 540]]);
}
