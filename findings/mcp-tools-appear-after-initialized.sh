#!/usr/bin/env bash
# An MCP server may answer `tools/list` in full only after `notifications/initialized`, though it answers it before: the official server
# `everything` registers tools by the client's capabilities when that notification comes, and announces each one with a list_changed of its
# own. A client that lists right after the answer to `initialize`, or reads the list again for each announcement, has the wrong tools or
# asks needlessly often. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/server-everything@2026.8.31 >/dev/null
cat >client.mjs <<'JS'
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
const folder = "node_modules/@modelcontextprotocol/server-everything";
const server = spawn("node", [`${folder}/dist/index.js`, "stdio"], { stdio: ["pipe", "pipe", "ignore"] });
const waiting = new Map();
let announced = 0, id = 0;
createInterface({ input: server.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === "notifications/tools/list_changed") announced++;
  else if (message.method && message.id !== undefined)
    send({ id: message.id, result: message.method === "roots/list" ? { roots: [] } : {} });
  else waiting.get(message.id)?.(message.result);
});
const send = (message) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const ask = (method, params = {}) => new Promise((done) => { waiting.set(++id, done); send({ id, method, params }); });
const list = async () => (await ask("tools/list")).tools.length;
const greeting = await ask("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: { roots: {}, sampling: {}, elicitation: {} },
  clientInfo: { name: "finding", version: "1" },
});
const before = await list();
send({ method: "notifications/initialized" });
let after = before;
for (let tries = 0; after <= before && tries < 50; tries++) {
  await new Promise((done) => setTimeout(done, 100));
  after = await list();
}
console.log(`${greeting.serverInfo.name} ${greeting.serverInfo.version}: ${before} tools before initialized, ${after} after it, ${announced} announcements`);
server.kill();
process.exit(after > before && announced > 1 ? 0 : 1);
JS
node client.mjs
