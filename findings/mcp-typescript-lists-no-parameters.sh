#!/usr/bin/env bash
# The TypeScript SDK of MCP lists a tool as one without any parameters (`"properties": {}`) where its `inputSchema` is a union, a discriminated
# union, an intersection, a record, or an object with `.transform()` or z.preprocess: only a plain zod object is described. Nothing is said when the
# tool is registered or listed, and calls are checked against the true schema: a model that is shown the list has to guess, and is refused until it
# guesses right. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2 zod@4.6.7 >/dev/null
cat >tools.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
const server = new McpServer({ name: "finding", version: "1" });
const [id, name] = [z.object({ id: z.string() }), z.object({ name: z.string() })];
const schemas = {
  plain: id,
  refined: id.refine(({ id }) => id !== ""),
  union: z.union([id, name]),
  discriminated: z.discriminatedUnion("by", [id.extend({ by: z.literal("id") }), name.extend({ by: z.literal("name") })]),
  intersection: z.intersection(id, name),
  record: z.record(z.string(), z.string()),
  transformed: id.transform((given) => given),
  preprocessed: z.preprocess((given) => given, id),
};
for (const [tool, inputSchema] of Object.entries(schemas))
  server.registerTool(tool, { inputSchema }, (given) => ({ content: [{ type: "text", text: Object.keys(given).join() }] }));
const client = new Client({ name: "finding", version: "1" });
const ends = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(ends[0]), client.connect(ends[1])]);
const { tools } = await client.listTools();
const listed = tools.map((tool) => `${tool.name}(${Object.keys(tool.inputSchema.properties)})`).join(" ");
const call = async (given) => {
  const answer = await client.callTool({ name: "union", arguments: given });
  return answer.isError ? "refused" : answer.content[0].text;
};
const calls = [await call({}), await call({ name: "a" })];
console.log(`@modelcontextprotocol/sdk 1.32.2 lists ${listed}; union without arguments: ${calls[0]}, with a name: ${calls[1]}`);
const seen = "plain(id) refined(id) union() discriminated() intersection() record() transformed() preprocessed()";
process.exit(listed === seen && calls.join() === "refused,name" ? 0 : 1);
JS
node tools.mjs
