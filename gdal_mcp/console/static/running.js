// Calls under way, and their end.

import { post } from "./api.js";
import { el, say, seconds } from "./dom.js";

export function running(main, state) {
  const rows = new Map();
  const list = el("div", { class: "cards", id: "running" });
  const empty = el("p", { class: "empty", hidden: true }, "Nothing runs.");
  main.append(el("h1", {}, "Running calls"), list, empty);
  const timer = setInterval(tick, 500);

  function update() {
    const there = new Set(state.running.map((one) => one.id));
    for (const [id, row] of rows) if (!there.has(id)) { row.element.remove(); rows.delete(id); }
    for (const one of state.running) {
      if (!rows.has(one.id)) {
        const row = makeRow(one);
        rows.set(one.id, row);
        list.append(row.element);
      }
      rows.get(one.id).set(one);
    }
    empty.hidden = rows.size > 0;
    tick();
  }

  function tick() {
    for (const row of rows.values()) row.tick(Date.now() / 1000 - state.skew);
  }

  return { update, close: () => clearInterval(timer) };
}

function makeRow(first) {
  const stage = el("p", {});
  const bar = el("progress", { max: "1", "aria-label": `Progress of ${first.tool}` });
  const age = el("span", { class: "left" });
  const end = el("button", { type: "button", class: "deny", "data-act": "cancel" }, "Cancel");
  end.addEventListener("click", async () => {
    end.disabled = true;
    try { await post(`cancel/${encodeURIComponent(first.id)}`); say(`${first.tool} is being ended; its container goes.`); } catch (error) { say(error.message, "bad"); }
  });
  const element = el("article", { class: "card", "data-id": first.id },
    el("h2", {}, first.tool), el("p", { class: "reason" }, `${first.principal}, by ${first.client}`), stage, bar,
    el("footer", { class: "actions" }, first.cancellable ? end : null, el("a", { href: `#/call/${encodeURIComponent(first.id)}` }, "Record"), age));
  const set = (one) => {
    stage.textContent = one.message ? `${one.stage}: ${one.message}` : one.stage;
    if (one.fraction > 0) bar.value = one.fraction; else bar.removeAttribute("value");
  };
  const tick = (now) => { age.textContent = seconds(Math.max(0, now - first.begun)); };
  return { element, set, tick };
}
