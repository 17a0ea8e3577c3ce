// The TypeScript SDK over stdio or HTTP: the first argument after the setup names the package, 1.x (@modelcontextprotocol/sdk) or 2.x.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const setup = JSON.parse(process.argv[2]);
const two = process.argv[3] === "2";
const missing = (text) => Object.assign(new Error(text), { missing: true });
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
const audited = () => { try { return readFileSync(join(setup.state, "audit.jsonl"), "utf8"); } catch { return ""; } };
const until = async (condition) => { for (let tries = 0; tries < 1200; tries++) { if (condition()) return; await pause(50); } throw new Error("timed out"); };
const expect = (condition, text) => { if (!condition) throw new Error(JSON.stringify(text).slice(0, 1500)); };

let asked = 0;
const progress = [];

async function connected() {
  const options = { capabilities: { elicitation: { form: {} } } };
  const address = setup.url && [new URL(setup.url), { requestInit: { headers: setup.headers } }];
  const parameters = { command: setup.command[0], args: setup.command.slice(1), env: setup.environment, stderr: "ignore" };
  const answer = async () => { asked += 1; return { action: "accept", content: {} }; };
  if (two) {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "typescript", version: "2" }, options);
    client.setRequestHandler("elicitation/create", answer);
    await client.connect(address ? new StreamableHTTPClientTransport(...address) : new StdioClientTransport(parameters));
    return client;
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const client = new Client({ name: "typescript", version: "1" }, options);
  client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(address ? new StreamableHTTPClientTransport(...address) : new StdioClientTransport(parameters));
  return client;
}

const client = await connected();
const send = (name, args, options = {}) => two
  ? client.callTool({ name, arguments: args }, options)
  : client.callTool({ name, arguments: args }, undefined, options);
const call = async (name, args, options) => (await send(name, args, options)).structuredContent;

const steps = {
  "lists": async () => expect((await client.listTools()).tools.some((tool) => tool.name === "convert"), "convert"),
  "reads": async () => expect((await call("info", { path: "rgb.tif" })).size.length === 2, "size"),
  "writes with approval": async () => {
    const answer = await call("convert", { input: "rgb.tif", output: "written.tif" });
    expect(existsSync(join(setup.workspace, "written.tif")), answer);
    expect(asked > 0, "it was not asked");
  },
  "shows progress": async () => {
    const size = { dst_crs: "EPSG:3857", size: [1500, 1500], resampling: "lanczos" };
    await call("reproject", { input: "rgb.tif", output: "big.tif", ...size }, { onprogress: (told) => progress.push(told) });
    if (progress.length === 0) throw missing("no progress");
  },
  "cancels": async () => {
    const control = new AbortController();
    const running = send("reproject", setup.long, { signal: control.signal }).catch((error) => error);
    await until(() => { const log = audited(); const at = log.lastIndexOf("long.tif"); return at >= 0 && log.slice(at).includes('"call.started"'); });
    control.abort("no longer needed");
    await running;
    await until(() => audited().includes('"CANCELLED"'));
  },
  "reads a resource": async () => {
    const answer = await call("info", { path: "rgb.tif" });
    const read = await client.readResource({ uri: `gdal://calls/${answer.receipt.call_id}` });
    expect(read.contents[0].text.includes("info"), read);
  },
  "gets a picture": async () => {
    const answer = await send("preview", { path: "rgb.tif", max_size: 64 });
    const data = answer.content.find((part) => part.type === "image").data;
    expect(Buffer.from(data, "base64").subarray(1, 4).toString() === "PNG", "PNG");
  },
};

const found = {};
for (const [name, step] of Object.entries(steps)) {
  try { await step(); found[name] = true; }
  catch (error) { found[name] = error.missing ? error.message : `FAILED: ${error}`; }
}
console.log(JSON.stringify(found));
process.exit(0);
