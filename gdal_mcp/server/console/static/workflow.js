// One workflow as a list of steps, each with its prediction, result and picture, and a button to run it again from there.

import { get, post } from "./api.js";
import { callLink, el, fill, say, seconds, confirmButton } from "./dom.js";
import { about } from "./outputs.js";
import { picture } from "./pictures.js";

const STANDS = { done: "good", reused: "good", failed: "bad", running: "going" };
const WORDS = { reused: "result of an earlier run used" };

export function workflow(main, state, id) {
  const place = el("div", { id: "workflow" });
  main.append(el("p", {}, el("a", { href: "#/history" }, "All calls")), place);
  const pictures = new Map(); // by step and its call, so that an update does not draw them again
  let shown = "";
  let loading = false;
  let again = false;

  async function load() {
    if (loading) { again = true; return; }
    loading = true;
    again = false;
    try {
      const found = await get(`workflows/${encodeURIComponent(id)}`);
      if (JSON.stringify(found) !== shown) fill(place, page(found, state, pictures));
      shown = JSON.stringify(found);
    } catch (error) {
      fill(place, el("h1", {}, "Workflow"), el("p", { class: "empty" }, error.message));
    }
    loading = false;
    if (again) load();
  }

  return { update: load };
}

function page(one, state, pictures) {
  return [
    el("h1", {}, one.title || one.name, " ", badge(one)),
    one.message && el("p", { class: "reason" }, one.message),
    el("div", { class: "row" },
      one.question && el("a", { class: "button primary", href: `#approval=${encodeURIComponent(one.question)}` }, "Decide"),
      callLink(one.id, "Record of the call")),
    el("p", { class: "note" }, one.publishes.length ? `Publishes ${one.publishes.join(", ")} once every step has succeeded.` : ""),
    el("ol", { class: "steps" }, one.steps.map((step) => entry(one, step, state, pictures)))];
}

function badge(one) {
  if (one.undone) return el("span", { class: "badge going" }, "undone");
  if (one.question) return el("span", { class: "badge going" }, "waiting for approval");
  if (!one.ended) return el("span", { class: "badge going" }, "running");
  return el("span", { class: `badge ${one.outcome === "OK" ? "good" : "bad"}` }, one.outcome);
}

function entry(one, step, state, pictures) {
  const percent = step.fraction ? ` ${Math.round(step.fraction * 100)} %` : "";
  return el("li", { class: "card step", "data-step": step.id, "data-stands": step.stands },
    el("h2", {}, step.id, " ", el("span", { class: `badge ${STANDS[step.stands] || ""}` }, `${WORDS[step.stands] || step.stands}${percent}`)),
    step.after.length > 0 && el("p", { class: "note" }, `Uses ${step.after.join(", ")}`),
    el("pre", { tabindex: "0", "aria-label": `Command of ${step.id}` }, el("code", {}, step.command || step.tool)),
    el("div", { class: "step-facts" }, drawn(one, step, pictures), el("div", {}, predicted(step), came(step))),
    step.message && el("p", { class: "wrong" }, step.message),
    [...step.checks, ...step.reports].map((check) => el("p", { class: "check" }, [check.message, check.suggestion].filter(Boolean).join(" "))),
    step.error && el("p", { class: "wrong" }, step.error),
    el("div", { class: "row" }, step.call && callLink(step.call, "Record of the step"),
      one.retryable && step.stands !== "not run" && confirmButton("Retry from here", "Press again to run it again", () => retry(one, step, state))));
}

function drawn(one, step, pictures) {
  if (!step.came) return null;
  const name = `${step.id} ${step.call}`;
  if (!pictures.has(name)) pictures.set(name, picture(`workflows/${encodeURIComponent(one.id)}/picture/${encodeURIComponent(step.id)}`, step.id, about(step.came)));
  return pictures.get(name);
}

function predicted(step) {
  const words = [step.predicts, step.predicts.includes(step.crs || "") ? "" : step.crs].filter(Boolean).join(", ");
  return [
    el("p", { class: "predicted" }, el("strong", {}, "Predicted: "), words || "not known"),
    (step.unknown || []).map((text) => el("p", { class: "check" }, `Not checked, because not known: ${text}`))];
}

function came(step) {
  if (!step.came) return null;
  const other = step.crs && step.came.crs && step.crs !== step.came.crs;
  return el("p", { class: other ? "came wrong" : "came" }, el("strong", {}, "Result: "),
    [about(step.came), step.seconds === null ? "" : seconds(step.seconds)].filter(Boolean).join(", "), other ? ` The CRS is not the predicted ${step.crs}.` : "");
}

// The answer comes when the new call ends; its page is shown as soon as it runs.
async function retry(one, step, state) {
  const before = new Set(state.running.map((call) => call.id));
  const answer = post(`workflows/${encodeURIComponent(one.id)}/retry`, { step: step.id });
  const watching = setInterval(() => {
    const found = state.running.find((call) => call.tool === "workflow_run" && call.principal === one.principal && !before.has(call.id));
    if (!found) return;
    clearInterval(watching);
    location.hash = `#/workflow/${encodeURIComponent(found.id)}`;
  }, 250);
  try {
    const { call, error } = await answer;
    if (error) say(error, "bad");
    if (location.hash === `#/workflow/${encodeURIComponent(one.id)}`) location.hash = `#/workflow/${encodeURIComponent(call)}`;
  } catch (error) {
    say(error.message, "bad");
  } finally {
    clearInterval(watching);
  }
}
