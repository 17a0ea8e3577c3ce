// Requests to the server: a cookie that scripts cannot read, and a key that other pages cannot.

const KEY = "gdal-mcp-console-key";

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function hasKey() {
  return Boolean(localStorage.getItem(KEY));
}

export function forget() {
  localStorage.removeItem(KEY);
}

async function answered(response) {
  if (response.ok) return response;
  let reason = `The server answered ${response.status}.`;
  try { reason = (await response.json()).error || reason; } catch { /* no JSON: the number says it */ }
  throw new Failed(response.status, reason);
}

async function send(path, options = {}) {
  const headers = { "X-Console-Key": localStorage.getItem(KEY) || "", ...(options.headers || {}) };
  return answered(await fetch(`api/${path}`, { credentials: "same-origin", cache: "no-store", ...options, headers }));
}

export async function get(path) {
  return (await send(path)).json();
}

export async function post(path, body = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await send(path, options)).json();
}

export async function enter(given) {
  const told = await post("login", given);
  localStorage.setItem(KEY, told.key);
}

export async function leave() {
  try { await post("logout"); } finally { forget(); }
}

export async function picture(path) {
  return URL.createObjectURL(await (await send(path)).blob());
}

export async function download(number) {
  const { href } = await post(`link/${number}`);
  const link = document.createElement("a");
  link.href = href;
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}

// Calls `handlers[event](data)` for each event, and `handlers.state(text)` when the connection opens or is lost.
export async function listen(handlers) {
  let pause = 500;
  for (;;) {
    try {
      const response = await send("live");
      handlers.state("live");
      pause = 500;
      await read(response.body.getReader(), handlers);
    } catch (error) {
      if (error instanceof Failed && error.status === 401) { handlers.over(); return; }
    }
    handlers.state("reconnecting");
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 8000);
  }
}

async function read(reader, handlers) {
  const decoder = new TextDecoder();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += decoder.decode(value, { stream: true });
    const events = held.split("\n\n");
    held = events.pop();
    for (const one of events) deliver(one, handlers);
  }
}

function deliver(text, handlers) {
  const name = /^event: (\w+)$/m.exec(text);
  const data = /^data: (.*)$/m.exec(text);
  if (name && data && handlers[name[1]]) handlers[name[1]](JSON.parse(data[1]));
}
