// Every call there was, with search.

import { get } from "./api.js";
import { callLink, el, fill, isOpen, outcome, say, seconds, table, when } from "./dom.js";

const OUTCOMES = ["", "OK", "WAITING", "GDAL_ERROR", "DENIED", "APPROVAL_EXPIRED", "CANCELLED", "INVALID_ARGUMENT", "PATH_NOT_ALLOWED",
  "NOT_FOUND", "TIMEOUT", "MEMORY_LIMIT", "DISK_LIMIT", "OUTPUT_REJECTED", "RATE_LIMITED", "BUSY", "INTERNAL"];
const HEADS = ["When", "Tool", "Outcome", "Took", "By", "Command"];

export function history(main, state) {
  const words = el("input", { type: "search", id: "words", placeholder: "Tool, file, command, outcome or ID", autocomplete: "off" });
  const kind = el("select", { id: "outcome" }, OUTCOMES.map((one) => el("option", { value: one }, one || "Any outcome")));
  const place = el("div", { id: "calls" });
  const more = el("button", { type: "button", hidden: true }, "Older calls");
  let asked = 0;
  let next = null;

  async function load(cursor) {
    const mine = ++asked;
    const query = new URLSearchParams({ q: words.value, outcome: kind.value });
    if (cursor) query.set("cursor", cursor);
    try {
      const found = await get(`calls?${query}`);
      if (mine !== asked) return;
      const shown = table("Calls", HEADS, found.calls.map((one) => row(one, state)));
      if (cursor) place.querySelector("tbody").append(...shown.querySelectorAll("tbody > tr"));
      else fill(place, found.calls.length ? shown : el("p", { class: "empty" }, "No matching calls."));
      next = found.next;
      more.hidden = !next;
      place.dataset.loaded = "true";
    } catch (error) {
      say(error.message, "bad");
    }
  }

  let wait = 0;
  const soon = () => { clearTimeout(wait); wait = setTimeout(load, 200); };
  words.addEventListener("input", soon);
  kind.addEventListener("change", () => load());
  more.addEventListener("click", () => load(next));
  main.append(el("h1", {}, "History"),
    el("form", { class: "row", role: "search", on: { submit: (event) => { event.preventDefault(); load(); } } },
      el("label", { for: "words" }, "Search"), words, el("label", { for: "outcome", class: "visually-hidden" }, "Outcome"), kind),
    place, more);
  load();
  return { close: () => clearTimeout(wait) };
}

function row(one, state) {
  const waits = one.outcome === "WAITING" && isOpen(one.question, state);
  return [when(one.started), callLink(one.id, one.tool), outcome(one, state), one.outcome === "WAITING" ? "" : seconds(one.seconds), one.principal, el("div", {},
    one.command && el("code", {}, one.command),
    one.message && el("p", { class: "note" }, one.message),
    waits && el("a", { href: `#approval=${encodeURIComponent(one.question)}` }, "Decide"))];
}
