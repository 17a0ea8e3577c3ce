// Everything that is kept of one call.

import { get, post } from "./api.js";
import { bytes, command, el, facts, fill, outcome, say, seconds, table, twice, when } from "./dom.js";
import { downloadButton, picture } from "./pictures.js";

export function call(main, _state, id) {
  const place = el("div", { id: "record" });
  main.append(el("p", {}, el("a", { href: "#/history" }, "All calls")), place);
  load(place, id);
  return {};
}

async function load(place, id) {
  try {
    fill(place, page(await get(`calls/${encodeURIComponent(decodeURIComponent(id))}`), () => load(place, id)));
  } catch (error) {
    fill(place, el("h1", {}, "No record"), el("p", { class: "empty" }, error.status === 404 ? "There is none of that call here: it has not begun to run, or is not yours." : error.message));
  }
}

function page(told, again) {
  const one = told.record;
  return [
    el("h1", {}, one.tool, " ", outcome(one.outcome)),
    one.message && el("p", { class: "reason" }, one.message),
    told.undoable && el("div", { class: "row" }, twice("Undo this call", "Really undo: press again", () => takeBack(one.id, again))),
    facts([["Call", one.id], ["By", told.principal], ["Started", when(Date.parse(one.started) / 1000)], ["Took", seconds(one.duration)], ["Approval", one.approval],
      ["Isolation", one.tier], ["Image", one.image], ["GDAL", one.tool_version], ["Plan", one.plan]]),
    one.argv.length > 0 && el("pre", { tabindex: "0", "aria-label": "Command" }, el("code", {}, command(one.argv))),
    told.artifacts.length > 0 && [el("h2", {}, "Outputs"), el("div", { class: "tiles" }, told.artifacts.map(artifact))],
    el("h2", {}, "Audit"), told.audit.length
      ? table("Audit records", ["Number", "When", "What", "Hash"], told.audit.map((row) => [String(row.seq), row.time, row.type, el("code", { class: "cut" }, row.hash)]))
      : el("p", { class: "empty" }, "Not among the latest records; `gdal-mcp audit` has them all."),
    whole("Receipt", one.receipt), whole("Record", one), whole("Provenance (in-toto statement)", told.statement)];
}

async function takeBack(id, again) {
  try {
    const done = await post(`undo/${encodeURIComponent(id)}`);
    say(`Taken back: ${done.restored.length} restored, ${done.taken_away.length} taken away.`);
    again();
  } catch (error) {
    say(error.message, "bad");
  }
}

function artifact(one) {
  const there = one.state === "listed";
  return el("article", { class: "tile" }, there && one.pictured ? picture(one) : null,
    el("h3", {}, one.name), el("p", {}, `${bytes(one.bytes)}, ${one.state}`), there && !one.folder ? downloadButton(one) : null);
}

function whole(title, value) {
  return el("details", {}, el("summary", {}, title), el("pre", { tabindex: "0" }, el("code", {}, JSON.stringify(value, null, 2))));
}
