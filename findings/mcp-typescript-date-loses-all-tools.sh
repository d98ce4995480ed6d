#!/usr/bin/env bash
# One tool with a date among its parameters (`z.coerce.date()`; z.bigint() and z.instanceof() do it, too) makes a server with the TypeScript SDK of MCP and
# zod 4 answer `tools/list` with an error: all of its tools are gone, though each was registered and can be called by its name, that one too. The error
# names no tool. With zod 3 the same code lists a `date-time`. A start that is checked by `initialize` alone looks well. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2 zod@4.6.7 >/dev/null
cat >tools.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import * as four from "zod";
import * as three from "zod/v3";
async function look({ z }) {
  const server = new McpServer({ name: "finding", version: "1" });
  const said = (text) => ({ content: [{ type: "text", text }] });
  server.registerTool("ping", { inputSchema: { word: z.string() } }, ({ word }) => said(word));
  server.registerTool("since", { inputSchema: { day: z.coerce.date() } }, ({ day }) => said(`${day.getUTCFullYear()}`));
  const client = new Client({ name: "finding", version: "1" });
  const ends = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(ends[0]), client.connect(ends[1])]);
  const called = await client.callTool({ name: "since", arguments: { day: "2026-03-01" } });
  const listed = await client.listTools().then(
    ({ tools }) => tools.map(({ inputSchema }) => JSON.stringify(Object.values(inputSchema.properties)[0])).join(),
    (error) => error.message,
  );
  return `${called.content[0].text}; ${listed}`;
}
const [old, now] = [await look(three), await look(four)];
console.log(`@modelcontextprotocol/sdk 1.32.2, zod 3: ${old}\nzod 4.6.7: ${now}`);
const isAsSeen = old.includes('"date-time"') && now === "2026; MCP error -32603: Date cannot be represented in JSON Schema";
process.exit(isAsSeen ? 0 : 1);
JS
node tools.mjs
