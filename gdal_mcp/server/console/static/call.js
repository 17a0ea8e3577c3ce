// The whole record of one call.

import { get, post } from "./api.js";
import { bytes, command, el, facts, fill, isOpen, outcome, places, say, seconds, stepsLink, table, confirmButton, when } from "./dom.js";
import { about } from "./outputs.js";
import { downloadButton, picture } from "./pictures.js";

export function call(main, state, id) {
  const place = el("div", { id: "record" });
  main.append(el("p", {}, el("a", { href: "#/history" }, "All calls")), place);
  load(place, state, id);
  return {};
}

async function load(place, state, id) {
  try {
    fill(place, page(await get(`calls/${encodeURIComponent(decodeURIComponent(id))}`), state, () => load(place, state, id)));
  } catch (error) {
    fill(place, el("h1", {}, "No record"), el("p", { class: "empty" }, error.status === 404 ? "There is no such call here. It may not have started yet, or it is not yours." : error.message));
  }
}

function page(told, state, again) {
  const one = told.record;
  return [
    el("h1", {}, one.tool, " ", outcome({ ...one, undone: told.undone }, state)),
    one.message && el("p", { class: "reason" }, one.message),
    reason(one.receipt.untrusted),
    question(one.receipt.question, state),
    stepsLink(one.tool, one.id),
    told.undoable && el("div", { class: "row" }, confirmButton("Undo this call", "Press again to undo", () => undoCall(one.id, again))),
    facts([["Call", one.id], ["By", told.principal], ["Started", when(Date.parse(one.started) / 1000)], ["Duration", seconds(one.duration)], ["Approval", one.approval],
      ["Isolation", one.tier], ["Image", one.image], ["GDAL", one.tool_version], ["Plan", one.plan]]),
    one.argv.length > 0 && el("pre", { tabindex: "0", "aria-label": "Command" }, el("code", {}, command(one.argv))),
    places("Deleted", one.removed || []),
    told.artifacts.length > 0 && [el("h2", {}, "Outputs"), el("div", { class: "tiles" }, told.artifacts.map(artifact))],
    el("h2", {}, "Audit"), told.audit.length
      ? table("Audit records", ["Number", "When", "Event", "Hash"], told.audit.map((row) => [String(row.seq), when(Date.parse(row.time) / 1000), row.type, el("code", {}, row.hash)]))
      : el("p", { class: "empty" }, "Not among the latest records; `gdal-mcp audit` shows them all."),
    jsonDetails("Receipt", one.receipt), jsonDetails("Record", one), jsonDetails("Provenance (in-toto statement)", told.statement)];
}

// The output of the tool, each line once: from GDAL, from code that was run, and from any other library.
function reason(untrusted) {
  const { gdal, stderr, ...others } = untrusted || {};
  const texts = [gdal?.length ? gdal : stderr, ...Object.values(others)].flat(Infinity).filter((one) => typeof one === "string");
  const said = [...new Set(texts)].join("\n").trim();
  return said && [el("h2", {}, "What the tool reported"), el("pre", { tabindex: "0", "aria-label": "What the tool reported", class: "reported" }, el("code", {}, said))];
}

function question(id, state) {
  if (!id) return null;
  const open = isOpen(id, state);
  return el("div", { class: "row" }, el("a", { href: `#approval=${encodeURIComponent(id)}`, class: open ? "button primary" : "button" }, open ? "Decide" : "See the decision"));
}

async function undoCall(id, again) {
  try {
    const done = await post(`undo/${encodeURIComponent(id)}`);
    say(`Undone: ${done.restored.length} restored, ${done.taken_away.length} removed.`);
    again();
  } catch (error) {
    say(error.message, "bad");
  }
}

const STATES = { listed: "", superseded: "replaced later", retracted: "undone" };

function artifact(one) {
  const there = one.state === "listed";
  return el("article", { class: "tile" }, there && one.pictured ? picture(`pictures/${one.id}`, one.name, about(one)) : null,
    el("h3", {}, one.name), el("p", {}, [about(one), STATES[one.state] ?? one.state].filter(Boolean).join(", ")), there && !one.folder ? downloadButton(one) : null);
}

function jsonDetails(title, value) {
  return el("details", {}, el("summary", {}, title), el("pre", { tabindex: "0", "aria-label": title }, el("code", {}, JSON.stringify(value, null, 2))));
}
