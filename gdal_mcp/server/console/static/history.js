// All recorded calls, with search.

import { get } from "./api.js";
import { callLink, clock, el, fill, isOpen, outcome, say, seconds, stepsLink, table } from "./dom.js";

const HEADS = ["When", "Tool", "Outcome", "Took", "By", "Command"];

export function history(main, state) {
  const words = el("input", { type: "search", id: "words", placeholder: "Tool, file, command, outcome or ID", autocomplete: "off" });
  const kind = el("select", { id: "outcome" }, ["", ...state.me.outcomes].map((one) => el("option", { value: one }, one || "Any outcome")));
  const checks = el("input", { type: "checkbox", id: "checks" });
  const place = el("div", { id: "calls" });
  const more = el("button", { type: "button", hidden: true }, "Older calls");
  let asked = 0;
  let next = null;

  async function load(cursor) {
    const mine = ++asked;
    const query = new URLSearchParams({ q: words.value, outcome: kind.value, checks: checks.checked ? "1" : "" });
    let found = { calls: [], next: cursor };
    try {
      // one answer covers a bounded number of calls, so it can be empty although older calls match
      do {
        if (found.next) query.set("cursor", found.next);
        found = await get(`calls?${query}`);
        if (mine !== asked) return;
      } while (!found.calls.length && found.next);
      if (!cursor) fill(place, found.calls.length ? [] : el("p", { class: "empty" }, "No matching calls."));
      for (const [day, calls] of byDay(found.calls)) {
        const rows = table(`Calls of ${day}`, HEADS, calls.map((one) => row(one, state)));
        const last = place.querySelector("section:last-of-type");
        if (last?.dataset.day === day) last.querySelector("tbody").append(...rows.querySelectorAll("tbody > tr"));
        else place.append(el("section", { "data-day": day }, el("h2", {}, day), rows));
      }
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
  checks.addEventListener("change", () => load());
  more.addEventListener("click", () => load(next));
  main.append(el("h1", {}, "History"),
    el("form", { class: "row", role: "search", on: { submit: (event) => { event.preventDefault(); load(); } } },
      el("label", { for: "words" }, "Search"), words, el("label", { for: "outcome", class: "visually-hidden" }, "Outcome"), kind,
      el("label", { for: "checks" }, checks, " Show validate_call")),
    place, more);
  load();
  return { close: () => clearTimeout(wait) };
}

// The calls by day, in the reader's time zone, in their order.
function byDay(calls) {
  const days = new Map();
  for (const one of calls) {
    const day = new Date(one.started * 1000).toLocaleDateString(undefined, { dateStyle: "full" });
    days.set(day, [...(days.get(day) || []), one]);
  }
  return days;
}

function row(one, state) {
  const waits = one.outcome === "WAITING" && isOpen(one.question, state);
  return [clock(one.started), [callLink(one.id, one.tool), " ", stepsLink(one.tool, one.id)].filter(Boolean), outcome(one, state), one.outcome === "WAITING" ? "" : seconds(one.seconds), one.principal, el("div", {},
    one.command && el("code", {}, one.command),
    one.message && el("p", { class: "note" }, one.message),
    waits && el("a", { href: `#approval=${encodeURIComponent(one.question)}` }, "Decide"))];
}
