// The page: who is signed in, which view is shown, and what arrives while it is.

import * as api from "./api.js";
import { approvals } from "./approvals.js";
import { call } from "./call.js";
import { announce, el, fill, say } from "./dom.js";
import { files } from "./files.js";
import { history } from "./history.js";
import { MAP_SCRIPT, outputs } from "./outputs.js";
import { running } from "./running.js";
import { server } from "./server.js";
import { setUpTheme } from "./theme.js";
import { guardMarkup } from "./trusted.js";
import { workflow } from "./workflow.js";

const main = document.getElementById("main");
const VIEWS = { approvals, running, history, call, workflow, outputs, files, server };

// State shared by the views. `skew` is how far this clock is ahead of the server's, in seconds.
const state = { me: null, pending: [], decided: [], running: [], skew: 0, known: null };
let shown = null;

async function start() {
  guardMarkup(MAP_SCRIPT);
  setUpTheme(document.getElementById("theme"));
  document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  setUpMenu(document.querySelector("details.menu"));
  document.getElementById("leave").addEventListener("click", async () => { await api.leave(); location.reload(); });
  await useTicket();
  window.addEventListener("hashchange", async () => { if (await useTicket()) location.reload(); else if (state.me) show(); });
  try {
    if (!api.hasKey()) throw new api.Failed(401, "");
    state.me = await api.get("me");
  } catch (error) {
    signIn(error);
    return;
  }
  document.getElementById("nav").hidden = false;
  document.getElementById("leave").hidden = false;
  document.getElementById("who").textContent = state.me.principal;
  show();
  api.listen({ questions, running: calls, trouble: (told) => say(told.reason, "bad"), over: endSession, state: setConnectionState });
}

// Escape, and a click beside it, close the menu.
function setUpMenu(menu) {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
}

// A ticket in the address is used and taken out of it, so that no history keeps it.
async function useTicket() {
  const found = /^#ticket=([\w.-]+)$/.exec(location.hash);
  if (!found) return false;
  window.history.replaceState(null, "", "#/approvals");
  try { await api.enter({ ticket: found[1] }); } catch (error) { say(error.message, "bad"); return false; }
  return true;
}

function signIn(error) {
  const token = el("input", { type: "password", id: "token", name: "token", autocomplete: "off" });
  const wrong = el("p", { class: "wrong", role: "alert" }, error.status && error.status !== 401 ? error.message : "");
  const submit = async (event) => {
    event.preventDefault();
    try { await api.enter({ token: token.value.trim() }); location.reload(); } catch (failure) { wrong.textContent = failure.message; }
  };
  fill(main, el("section", { class: "card way-in" },
    el("h1", {}, "Sign in"),
    el("p", {}, "Run this command on the server's machine. It prints a link that signs you in; the link works once, for one minute."),
    el("pre", { tabindex: "0" }, el("code", {}, "gdal-mcp console --open")),
    el("details", {}, el("summary", {}, "I have a token for a shared server"),
      el("form", { class: "row", on: { submit } },
        el("label", { for: "token" }, "Token"), token, el("button", { type: "submit", class: "primary" }, "Sign in"))),
    wrong));
}

function endSession() {
  api.forget();
  location.reload();
}

function setConnectionState(text) {
  const place = document.getElementById("link-state");
  place.textContent = text === "live" ? "live" : "connection lost, reconnecting";
  place.dataset.state = text;
}

function questions(told) {
  state.skew = Date.now() / 1000 - told.now;
  const fresh = told.pending.filter((one) => state.known && !state.known.has(one.id));
  state.known = new Set(told.pending.map((one) => one.id));
  Object.assign(state, { pending: told.pending, decided: told.decided, loaded: true });
  count("approvals", told.pending.length);
  document.title = told.pending.length ? `(${told.pending.length}) GDAL console` : "GDAL console";
  if (fresh.length) announce(`${fresh.length} new ${fresh.length > 1 ? "calls are" : "call is"} waiting for approval: ${fresh[0].details.sentence}`);
  if (shown && shown.update) shown.update();
}

function calls(told) {
  state.skew = Date.now() / 1000 - told.now;
  state.running = told.running;
  count("running", told.running.length);
  if (shown && shown.update) shown.update();
}

function count(name, number) {
  const place = document.getElementById(`count-${name}`);
  place.hidden = !number;
  place.textContent = String(number);
}

// `#/page/rest` and `#approval=ID`, the address that waiting calls name.
function where() {
  const asked = /^#approval=([\w-]+)$/.exec(location.hash);
  if (asked) return ["approvals", asked[1]];
  const [, page, rest] = /^#\/(\w+)(?:\/(.*))?$/.exec(location.hash) || [];
  return Object.hasOwn(VIEWS, page || "") ? [page, rest || ""] : ["approvals", ""];
}

function show() {
  const [page, rest] = where();
  if (shown && shown.close) shown.close();
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === page || (["call", "workflow"].includes(page) && link.dataset.page === "history")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector("dialog")?.close();
  fill(main);
  shown = VIEWS[page](main, state, rest) || {};
  if (shown.update) shown.update();
}

start();
