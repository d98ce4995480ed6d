#!/usr/bin/env bash
# A server of MCP lists tools that its client can't call: the official server `everything` has one with `execution.taskSupport: required`,
# which it lists to a client that declared no `tasks`, and refuses for a plain `tools/call`. Who shows a model all listed tools shows it one
# that never works, and who waits until all are usable waits for ever. Exits non-zero if that changes.
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
let id = 0;
createInterface({ input: server.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === undefined) waiting.get(message.id)?.(message);
});
const send = (message) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const ask = (method, params = {}) => new Promise((done) => { waiting.set(++id, done); send({ id, method, params }); });
const greeting = await ask("initialize", {
  protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "finding", version: "1" },
});
send({ method: "notifications/initialized" });
let tool;
for (let tries = 0; tool === undefined && tries < 50; tries++) {
  await new Promise((done) => setTimeout(done, 100));
  const { tools } = (await ask("tools/list")).result;
  tool = tools.find((one) => one.execution?.taskSupport === "required");
}
const { serverInfo } = greeting.result;
const answer = tool && (await ask("tools/call", { name: tool.name, arguments: { topic: "tea" } }));
const refused = answer?.error?.message ?? (answer?.result?.isError ? answer.result.content[0].text : undefined);
console.log(`${serverInfo.name} ${serverInfo.version}: lists ${tool?.name}; a plain call of it: ${refused ?? "is answered"}`);
server.kill();
process.exit(tool && refused ? 0 : 1);
JS
node client.mjs
