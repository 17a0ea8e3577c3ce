// Running calls.

import { post } from "./api.js";
import { callLink, el, say, seconds, stepsLink } from "./dom.js";

const ENOUGH = 0.05; // progress that has to be seen before the time left is estimated

export function running(main, state) {
  const rows = new Map();
  const list = el("div", { class: "cards", id: "running" });
  const empty = el("p", { class: "empty", hidden: true }, "No calls are running.");
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
  const files = el("p", { class: "file-name" });
  const bar = el("progress", { max: "1", "aria-label": `Progress of ${first.tool}` });
  const age = el("span", { class: "left" });
  const end = el("button", { type: "button", class: "deny", "data-act": "cancel" }, "Cancel");
  const decide = el("a", { class: "button primary" }, "Decide");
  end.addEventListener("click", async () => {
    end.disabled = true;
    try { await post(`cancel/${encodeURIComponent(first.id)}`); say(`${first.tool} is being cancelled.`); } catch (error) { say(error.message, "bad"); }
  });
  const element = el("article", { class: "card", "data-id": first.id },
    el("h2", {}, first.tool), files, el("p", { class: "reason" }, `${first.principal}, using ${first.client}`), stage, bar,
    el("footer", { class: "actions" }, decide, first.cancellable ? end : null, stepsLink(first.tool, first.id), callLink(first.id, "Details"), age));
  let now = first;
  let start = null; // the first progress: the time before, spent waiting for approval, says nothing about the speed

  function set(one) {
    now = one;
    stage.textContent = !one.message ? one.stage : one.message.startsWith(one.stage) ? one.message : `${one.stage}: ${one.message}`;
    files.textContent = (one.outputs || []).join(", ");
    bar.hidden = decide.hidden = false;
    if (one.question) { decide.href = `#approval=${encodeURIComponent(one.question)}`; bar.hidden = true; } else decide.hidden = true;
    if (one.fraction > 0) bar.value = one.fraction; else bar.removeAttribute("value");
  }

  function tick(time) {
    start ??= now.fraction > 0 ? { time, fraction: now.fraction } : null;
    const done = start ? now.fraction - start.fraction : 0;
    const left = done > ENOUGH && now.fraction < 1 ? `, about ${seconds((time - start.time) / done * (1 - now.fraction))} left` : "";
    const percent = now.fraction > 0 ? `${Math.round(now.fraction * 100)} %, ` : "";
    age.textContent = `${percent}${seconds(Math.max(0, time - now.begun))}${left}`;
  }

  return { element, set, tick };
}
