// The server itself: figures, the audit log, the host check, and approvals given in advance.

import { get, post } from "./api.js";
import { bytes, el, facts, fill, say, seconds, table, confirmButton, when } from "./dom.js";

const APPROVAL = { writes: "calls that write ask a person", always: "every call asks a person", never: "no call asks anybody" };

export function server(main, state) {
  main.append(el("h1", {}, "Server"),
    facts([["Version", state.me.version], ["Workspaces", state.me.workspaces.join(", ")], ["You are", state.me.principal],
      ["Approval", APPROVAL[state.me.approval]], ["Policy file", state.me.policy], ["GDAL image", state.me.image]]));
  const grants = el("section", {}, el("h2", {}, "Approved in advance"), el("div", { id: "grants" }));
  main.append(grants);
  loadGrants(grants.lastChild);
  if (!state.me.admin) {
    main.append(el("p", { class: "empty" }, "Only administrators see figures, the audit log and the host check."));
    return {};
  }
  main.append(audit(), doctor(), figures());
  return {};
}

async function loadGrants(place) {
  try {
    const { grants } = await get("grants");
    if (!grants.length) { fill(place, el("p", { class: "empty" }, "Nothing is approved in advance.")); return; }
    const revoke = (one) => confirmButton("Revoke", "Press again to revoke", async () => {
      try { await post(`revoke/${encodeURIComponent(one.id)}`); } catch (error) { say(error.message, "bad"); }
      loadGrants(place);
    });
    fill(place, table("Grants", ["State", "Who", "Tool", "Workspace", "Until", "By", ""], grants.map((one) => [
      el("span", { class: `badge ${one.state === "active" ? "good" : "going"}` }, one.state), one.principal, one.tool, one.workspace, when(one.expires), one.by, one.revocable ? revoke(one) : ""])));
  } catch (error) {
    say(error.message, "bad");
  }
}

function audit() {
  const place = el("div", { id: "audit" });
  const found = el("p", { role: "status", id: "audit-verdict" });
  const check = el("button", { type: "button", "data-act": "verify" }, "Verify every record");
  check.addEventListener("click", () => busy(check, async () => {
    const told = await post("audit/verify");
    found.className = told.ok ? "good-text" : "wrong";
    found.textContent = told.ok ? `Intact: ${told.records} records, ending at ${told.checkpoint}` : `Broken at record ${told.first_bad}: ${told.reason}`;
  }));
  load(place, "audit", (told) => facts([["File", told.path], ["Records", String(told.records)], ["Checkpoint", el("code", {}, told.checkpoint)]]));
  return el("section", {}, el("h2", {}, "Audit log"), place, el("div", { class: "row" }, check), found);
}

function doctor() {
  const place = el("div", { id: "doctor" });
  const check = el("button", { type: "button", "data-act": "doctor" }, "Check this host");
  check.addEventListener("click", () => busy(check, async () => {
    const told = await post("doctor");
    fill(place, table("Host check", ["State", "What", "Found", "How to fix it"], told.rows.map((row) => [
      el("span", { class: `badge ${{ ok: "good", warning: "going", failed: "bad" }[row.state]}` }, row.state), `${row.group}: ${row.name}`, row.found, row.fix])));
  }));
  return el("section", {}, el("h2", {}, "Host check"), el("p", { class: "note" }, "This starts a container and takes a few seconds."), el("div", { class: "row" }, check), place);
}

function figures() {
  const place = el("div", { id: "figures" });
  load(place, "figures", (told) => [
    table("Figures", ["", "Last 24 hours", "In total"], [
      ["Calls", String(told.lately.calls), String(told.total.calls)],
      ["Served by a warm container", share(told.lately.pool.hit_rate), share(told.total.pool.hit_rate)],
      ["Call time, median", seconds(told.lately.seconds.total.p50), seconds(told.total.seconds.total.p50)],
      ["Call time, 95th percentile", seconds(told.lately.seconds.total.p95), seconds(told.total.seconds.total.p95)],
      ["CPU time", seconds(told.lately.cpu_seconds), seconds(told.total.cpu_seconds)],
      ["Data published", bytes(told.lately.output.bytes), bytes(told.total.output.bytes)],
      ["Files published", String(told.lately.output.files), String(told.total.output.files)]]),
    table("Calls by tool and outcome", ["Tool", "Outcome", "Calls"], told.total.calls ? told.total.by_tool_and_outcome.map((row) => [row.tool, row.outcome, String(row.count)]) : [])]);
  return el("section", {}, el("h2", {}, "Figures"), place);
}

function share(part) {
  return part === null ? "" : `${(part * 100).toFixed(1)} %`;
}

async function load(place, path, show) {
  try { fill(place, show(await get(path))); } catch (error) { fill(place, el("p", { class: "wrong" }, error.message)); }
}

async function busy(button, work) {
  const text = button.textContent;
  button.disabled = true;
  button.textContent = "Checking…";
  try { await work(); } catch (error) { say(error.message, "bad"); } finally { button.disabled = false; button.textContent = text; }
}
