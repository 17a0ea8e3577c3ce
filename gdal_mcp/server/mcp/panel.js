// The panel of one call in a chat: its result, on a map. It speaks with the page around it, by JSON-RPC as MCP Apps has it, and
// with nothing else. What the page says is data: every text becomes a text node, and `untrusted` is not shown at all.

const PROTOCOL = "2026-01-26";
const PICTURE = /^[A-Za-z0-9+/]+=*$/; // base64, so that an address of a picture is nothing else
const place = document.getElementById("main");
const answers = new Map(); // by the number of the request
let asked = 0;
let input = {}; // the call's arguments
let map = null;

function tell(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*"); // nothing that the page around does not know
}

function request(method, params) {
  asked += 1;
  tell({ id: asked, method, params });
  return new Promise((done) => answers.set(asked, done));
}

const HANDLERS = new Map([
  ["ui/notifications/tool-input", (told) => { input = told.arguments && typeof told.arguments === "object" ? told.arguments : {}; }],
  ["ui/notifications/tool-result", show],
  ["ui/notifications/tool-cancelled", () => fill(place, el("p", { class: "empty" }, "The call was cancelled. Nothing was written."))],
  ["ui/notifications/host-context-changed", useTheme],
  ["ui/resource-teardown", () => { if (map) map.close(); map = null; }],
  ["ping", () => {}],
]);

window.addEventListener("message", ({ source, data }) => {
  if (source !== window.parent || !data || data.jsonrpc !== "2.0") return;
  if (typeof data.method !== "string") {
    if (answers.has(data.id)) answers.get(data.id)(data.result || {});
    answers.delete(data.id);
    return;
  }
  const handler = HANDLERS.get(data.method);
  if (handler) handler(data.params || {});
  if (data.id === undefined) return;
  tell(handler ? { id: data.id, result: {} } : { id: data.id, error: { code: -32601, message: "Method not found" } });
});

function useTheme({ theme }) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

function list(value) {
  return Array.isArray(value) ? value.filter((one) => one && typeof one === "object") : [];
}

function word(value) {
  return typeof value === "string" || Number.isFinite(value) ? String(value) : "";
}

// A result of a call, or its error.
function show({ structuredContent, content }) {
  const told = structuredContent && typeof structuredContent === "object" ? structuredContent : {};
  const png = list(content).find((one) => one.type === "image" && one.mimeType === "image/png" && PICTURE.test(one.data));
  const picture = png ? `data:image/png;base64,${png.data}` : null;
  const rows = told.shown ? [{ path: input.path, description: { ...told.shown, size: told.shown.source_size, features: null } }] : list(told.outputs);
  const outputs = rows.map((one, at) => output(one, at, picture));
  if (map) map.close();
  map = null;
  const ground = el("section", { class: "map-place" });
  fill(place, told.error ? failure(told.error) : outcomeOf(told), list(told.checks).map(check),
    ground, outputs.map(described), picture ? pictureOf(picture) : null, receipt(told.receipt));
  const located = outputs.filter((one) => one.wgs84.length);
  if (located.length) drawMap(ground, located, picture);
}

function drawMap(ground, located, picture) {
  const { rings } = JSON.parse(document.getElementById("land").textContent);
  map = makeMap(ground, { leaflet: window.L, land: { rings }, pictureOf: async () => picture, open: (one) => map.look(one) });
  map.add(located);
}

function pictureOf(address) {
  const image = el("img", { alt: "Preview of the result" });
  image.src = address;
  return el("div", { class: "picture" }, image);
}

// An output as the map wants it. The picture of a result shows its first output.
function output(row, at, picture) {
  const facts = row.description && typeof row.description === "object" ? row.description : {};
  const layers = list(facts.layers);
  const crs = facts.crs || (layers.find((one) => one.crs) || {}).crs || {};
  const counts = layers.map((one) => one.features).filter(Number.isInteger);
  const known = [facts, ...layers].map((one) => one.wgs84 || (crs.kind === "geographic" ? one.extent : null)).filter(isBox);
  return { id: at + 1, path: word(row.path), name: word(row.path).split("/").pop(), driver: word(facts.driver), bytes: facts.bytes, wgs84: known,
    size: isSize(facts.size) ? facts.size : null, features: counts.length ? counts.reduce((sum, one) => sum + one, 0) : null,
    crs: word(crs.code) || word(crs.kind), checks: list(row.checks), pictured: Boolean(picture) && at === 0 };
}

function isBox(value) {
  return Array.isArray(value) && value.length === 4 && value.every(Number.isFinite);
}

function isSize(value) {
  return Array.isArray(value) && value.length === 2 && value.every(Number.isInteger);
}

function described(one) {
  const amount = one.size ? `${one.size[0]} × ${one.size[1]} pixels` : one.features === null ? null : `${one.features} features`;
  const corner = (box) => box.map((value) => value.toFixed(4)).join(", ");
  return el("article", { class: "card", "data-output": one.name }, el("h2", { title: one.path }, one.name),
    facts([["Format", one.driver], ["Holds", amount], ["CRS", one.crs || "none"], ["Bytes", Number.isFinite(one.bytes) ? bytes(one.bytes) : null],
      ["Extent (west, south, east, north)", one.wgs84.length ? corner(one.wgs84[0]) : null]]),
    one.checks.length ? one.checks.map(check) : el("p", { class: "good-text" }, "No problems found."));
}

function check(one) {
  return el("p", { class: "check", "data-code": word(one.code) }, word(one.message), " ", word(one.suggestion));
}

function failure(error) {
  const waits = error.requiresConfirmation;
  return el("article", { class: "card reported", id: "state" }, el("h2", {}, waits ? "Waiting for approval" : "Nothing was written"),
    el("p", {}, el("span", { class: `badge ${waits ? "going" : "bad"}` }, word(error.code)), " ", word(error.message)), el("p", { class: "note" }, word(error.suggestion)));
}

function outcomeOf(told) {
  const replaced = list(told.replaced).length;
  const allowed = told.receipt ? word(told.receipt.approval) : "";
  return el("p", { id: "state" }, el("span", { class: "badge good" }, "done"), " ", allowed, replaced ? `; ${replaced} replaced, kept for undo` : "");
}

function receipt(told) {
  return told ? el("p", { class: "note" }, [`call ${word(told.call_id)}`, word(told.tier), seconds(told.seconds)].filter(Boolean).join(", ")) : null;
}

new ResizeObserver(() => {
  tell({ method: "ui/notifications/size-changed", params: { height: Math.ceil(document.documentElement.scrollHeight) } });
}).observe(document.body);

fill(place, el("p", { class: "empty" }, "Waiting for the call…"));
request("ui/initialize", { appInfo: { name: "gdal-mcp", version: "1" }, appCapabilities: { availableDisplayModes: ["inline"] }, protocolVersion: PROTOCOL }).then(({ hostContext }) => {
  useTheme(hostContext || {});
  tell({ method: "ui/notifications/initialized", params: {} });
});
