// Questions that wait for a person. A card stays where it is until it is dismissed, so that no click meets another card.

import { get, post } from "./api.js";
import { bytes, callLink, command, el, facts, fill, path, places, say, seconds, stepsLink, table, when } from "./dom.js";
import { picture } from "./pictures.js";

const SETTLE = 500; // milliseconds before a new card takes clicks: they were meant for what was there before
const MINUTES = [15, 30, 60];

export function approvals(main, state, wanted) {
  const cards = new Map();
  const list = el("div", { class: "cards", id: "questions" });
  const empty = el("p", { class: "empty", hidden: true }, "Nothing is waiting for a decision.");
  const latest = el("div", {});
  main.append(el("h1", {}, "Waiting for approval"), list, empty, el("h2", {}, "Recent decisions"), latest);
  const timer = setInterval(() => { for (const one of cards.values()) one.tick(state); }, 500);
  if (wanted) lookFor(wanted, state, cards, list);

  function update() {
    if (!state.loaded) return;
    const open = new Set(state.pending.map((one) => one.id));
    for (const one of state.pending) {
      if (cards.has(one.id)) continue;
      const card = makeCard(one, () => { cards.delete(one.id); update(); });
      cards.set(one.id, card);
      list.append(card.element);
      card.tick(state);
      if (one.id === wanted) { card.element.focus(); card.element.scrollIntoView(); }
    }
    for (const [id, card] of cards) if (!open.has(id)) card.close(state.decided.find((one) => one.id === id));
    empty.hidden = cards.size > 0;
    fill(latest, decidedTable(state.decided));
  }

  return { update, close: () => clearInterval(timer) };
}

// A link to a question that is decided already still says what became of it.
async function lookFor(id, state, cards, list) {
  try {
    const found = await get(`questions/${id}`);
    if (found.state === "asked" || cards.has(id)) return;
    list.append(el("p", { class: "verdict" }, verdict(found), " ", found.sentence));
  } catch (error) {
    say(error.message, "bad");
  }
}

function decidedTable(rows) {
  if (!rows.length) return el("p", { class: "empty" }, "No decisions yet.");
  return table("Recent decisions", ["When", "What", "Decision", "By"], rows.map((one) => [
    when(one.at), callLink(one.call, one.sentence), badge(one), one.by ? `${one.by}, ${one.how}` : "nobody"]));
}

function badge(one) {
  const words = { reserved: "approved", consumed: "approved", released: "approved, waiting for the call to be sent again" };
  return el("span", { class: `badge ${one.state === "denied" ? "bad" : one.state === "expired" ? "going" : "good"}` }, words[one.state] || one.state);
}

function verdict(one) {
  if (!one) return "It has been decided.";
  if (one.state === "expired") return "Nobody answered in time, or the call ended.";
  const again = one.state === "released" ? " The call has ended: ask the assistant to send it again." : "";
  return `${one.state === "denied" ? "Denied" : "Approved"} by ${one.by} (${one.how}).${again}`;
}

function makeCard(question, dismissed) {
  const told = question.details;
  const left = el("span", { class: "left" });
  const footer = el("footer", { class: "actions" });
  const title = el("h2", { id: `title-${question.id}` }, told.title || told.sentence);
  const end = el("div", { class: "seen-end", "aria-hidden": "true" });
  const element = el("article", { class: `card question ${question.effect}`, tabindex: "-1", "aria-labelledby": `title-${question.id}`, "data-id": question.id },
    title, asks(question), losses(question), warnings(question), commands(question), end, context(question), footer);
  let closed = "";
  let settled = false;
  let read = false; // whether all that matters has been on the screen
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    read = true;
    watcher.disconnect();
    enable();
  }, { rootMargin: "-60px 0px -120px 0px" }); // without what lies below the header and the sticky buttons
  watcher.observe(end);

  // A no can always be given; a yes only once the command and every warning have been on the screen.
  function enable() {
    if (closed || !settled) return;
    for (const one of footer.querySelectorAll("button")) one.disabled = one.dataset.yes === "true" && !read;
    const rest = footer.querySelector("[data-rest]");
    if (rest) rest.hidden = read;
  }

  // Called again when the decision changed: a no elsewhere ends a yes that was not used yet.
  function close(row) {
    if (closed === verdict(row) || (closed && !row)) return;
    if (!closed) {
      element.classList.add("decided");
      left.remove();
      watcher.disconnect();
      const button = el("button", { type: "button", on: { click: () => { element.remove(); dismissed(); } } }, "Dismiss");
      fill(footer, el("p", { class: "verdict", role: "status" }), button);
    }
    closed = verdict(row);
    footer.firstChild.textContent = closed;
  }

  async function act(path, body) {
    for (const one of footer.querySelectorAll("button")) one.disabled = true;
    try {
      const answer = await post(`${path}/${encodeURIComponent(question.id)}`, body);
      if (!answer.yours) say(`Your answer came too late. ${verdict(answer)}`, "bad");
      close(answer);
    } catch (error) {
      say(error.message, "bad");
      if (error.status === 404) close(null);
      enable();
    }
  }

  fill(footer, buttons(question, act, end), left);
  for (const one of footer.querySelectorAll("button")) one.disabled = true;
  setTimeout(() => { settled = true; enable(); }, SETTLE);

  function tick(state) {
    const rest = Math.max(0, Math.round(question.expires - (Date.now() / 1000 - state.skew)));
    left.textContent = rest ? `${Math.floor(rest / 60)}:${String(rest % 60).padStart(2, "0")} left to decide` : "expired";
  }

  return { element, close, tick };
}

function buttons(question, act, end) {
  if (!question.deniable) return [el("p", { class: "note" }, "Only an approver can decide this.")];
  const rest = el("button", { type: "button", "data-rest": "true", hidden: true, on: { click: () => end.scrollIntoView({ block: "center" }) } }, "Scroll down to approve");
  const yes = el("button", { type: "button", class: question.effect === "destroy" ? "primary destroys" : "primary", "data-yes": "true", "data-act": "approve", on: { click: () => act("decide", { approved: true }) } }, "Approve");
  const no = el("button", { type: "button", class: "deny", "data-act": "deny", on: { click: () => act("decide", { approved: false }) } }, "Deny");
  if (!question.decidable) return [no, el("p", { class: "note" }, `The policy accepts approval only by ${question.ways.join(" or ")}.`)];
  return [yes, no, rest, question.grantable && grantMenu(question, act)];
}

function grantMenu(question, act) {
  const each = MINUTES.map((minutes) => el("button", { type: "button", "data-yes": "true", "data-minutes": minutes, on: { click: () => act("allow", { minutes }) } }, `${minutes} minutes`));
  return el("details", { class: "grant" },
    el("summary", {}, "Approve, and stop asking for a while"),
    el("p", {}, `${question.principal} can then use ${question.tool} to write to ${question.workspaces.join(" and ")} without asking. You can revoke this on the Server page.`),
    el("div", { class: "row" }, each));
}

// What would not be as it was. The server counts the pictures over what is replaced and then what is deleted.
function losses(question) {
  const { writes, removes } = question.details;
  const written = writes?.shown || [];
  const replaced = written.flatMap((one) => one.replaces.shown);
  const maybe = written.flatMap((one) => one.may_replace.shown);
  const drawn = (one, number) => lost(one, `questions/${encodeURIComponent(question.id)}/picture/${number}`);
  const parts = [
    places("Deletes", (removes?.shown || []).map((one, at) => drawn(one, replaced.length + at)), removes?.more),
    places("Replaces", replaced.map(drawn), written.reduce((sum, one) => sum + one.replaces.more, 0)),
    places("May replace", maybe.map((one) => lost(one)), 0)].filter(Boolean);
  return parts.length ? el("div", { class: "danger" }, parts, el("p", { class: "note" }, "The old files are kept, so this can be undone.")) : null;
}

function lost(one, drawn) {
  const size = Number.isFinite(one.bytes) && bytes(one.bytes);
  const about = [one.kind, size].filter(Boolean).join(", ");
  return el("div", { class: "lost" }, drawn && picture(drawn, one.path, about),
    el("div", {}, path(one.path), el("p", { class: "note" }, about, Number.isFinite(one.modified) && [about && ", ", "last changed ", when(one.modified)])));
}

// Whose call it is: a program's, with the rights of a person.
function asks(question) {
  const { client, reason, tool } = question.details;
  const who = client ? `${client}, for ${question.principal},` : question.principal;
  return el("p", { class: "reason" }, `${who} called ${tool || question.tool}. ${reason ? `Approval is needed because ${reason}.` : ""}`);
}

function warnings(question) {
  return (question.details.checks || []).map((one) => el("p", { class: "check" }, `${one.step ? `Step ${one.step}: ` : ""}${one.message} ${one.suggestion}`));
}

function commands(question) {
  const told = question.details;
  return [steps(question), told.code && code(told.code), told.command && el("pre", { tabindex: "0", "aria-label": "Command" }, el("code", {}, command(told.command)))];
}

// A workflow's: each of its commands, in order.
function steps({ details, tool, call }) {
  if (!details.steps?.length) return null;
  return [
    el("ol", { class: "question-steps" }, details.steps.map((one) => el("li", {}, el("strong", {}, one.id), el("pre", { tabindex: "0", "aria-label": `Command of ${one.id}` }, el("code", {}, one.command))))),
    el("p", {}, stepsLink(details.tool || tool, call), ", with what is predicted of each")];
}

function context(question) {
  const told = question.details;
  const writes = (told.writes?.shown || []).map((one) => [one.path, one.changes && "(a changed copy)", one.becomes && `(${one.becomes})`].filter(Boolean).join(" "));
  const reads = (told.reads?.shown || []).map((one) => `${one.path} (${bytes(one.bytes)})`);
  const remote = (told.remote || []).flatMap((one) => [`${one.host}, read by ${one.read_by}${one.bytes ? `, ${bytes(one.bytes)} in all` : ""}`, ...one.reads.shown]);
  const moves = (told.moves?.shown || []).map((one) => `${one.from} → ${one.to}`);
  return [
    el("div", { class: "columns" }, places("Writes", writes, told.writes?.more), places("Moves", moves, told.moves?.more), places("Reads", reads, told.reads?.more), places("Reads over the network", remote)),
    expected(told.estimate),
    told.time ? el("p", {}, told.time) : null,
    told.where && where(told)];
}

// All of the code, line by line as the server cut and coloured it, and what changed since the last that was approved.
function code({ lines, changes }) {
  const shown = lines.map((pieces) => el("li", {}, el("code", {}, pieces.map(([kind, text]) => el("span", kind ? { class: `code-${kind}` } : {}, text)))));
  const marks = { "+": "code-added", "-": "code-removed", "@": "note" };
  return [
    el("ol", { class: "source", tabindex: "0", "aria-label": "Code" }, shown),
    changes && el("details", { open: true }, el("summary", {}, changes.length ? "Changes since the last approved code" : "The same code as the last approved"),
      el("pre", { tabindex: "0", "aria-label": "Changes" }, changes.map((line) => el("code", { class: marks[line[0]] || "" }, `${line}\n`))))];
}

function expected(estimate) {
  if (!estimate?.output_bytes) return null;
  return el("p", {}, `Expected output: about ${bytes(estimate.output_bytes)}, by a rough estimate.`);
}

function where(told) {
  const { where: place, limits } = told;
  return el("details", {}, el("summary", {}, `Runs in its own container (${place.tier}) without network access, which is removed afterwards`),
    facts([["Image", place.image], ["Digest", place.digest], ["Network", place.network], ["Memory limit", bytes(limits.memory_bytes)],
      ["CPU limit", String(limits.cpus)], ["Time limit", seconds(limits.wall_seconds)], ["Can read", place.mounts.join(", ")], ["Plan", told.plan]]));
}
