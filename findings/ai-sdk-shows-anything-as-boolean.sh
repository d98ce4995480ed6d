#!/usr/bin/env bash
# Vercel's AI SDK (npm ai 6.0.326 with @ai-sdk/google 3.0.141) shows Gemini a parameter that may be anything, `true` in JSON Schema, as a boolean: a tool
# written in Rust has that for a serde_json::Value (schemars), and a model then sends `true` for a document. It drops `minimum`, `maximum`, `pattern`,
# `default` and the entries of a tuple, and makes of `enum: [1, 2]` of integers texts. Each of those the model has to know to be
# understood, and nothing says that they are gone. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts ai@6.0.326 @ai-sdk/google@3.0.141 >/dev/null
cat >ask.mjs <<'JS'
import assert from "node:assert";
import { createServer } from "node:http";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { generateText, jsonSchema, tool } from "ai";

let asked;
const server = createServer(async (request, response) => {
  asked = JSON.parse((await request.toArray()).join(""));
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ candidates: [{ content: { role: "model", parts: [{ text: "Yes." }] }, finishReason: "STOP" }] }));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const model = createGoogleGenerativeAI({ apiKey: "none", baseURL: `http://127.0.0.1:${server.address().port}` })("gemini-2.5-pro");
const properties = {
  document: true,
  pages: { type: "integer", minimum: 1, maximum: 20, default: 5 },
  ticket: { type: "string", pattern: "^[A-Z]+-[0-9]+$" },
  priority: { type: "integer", enum: [1, 2] },
  range: { type: "array", prefixItems: [{ type: "integer" }, { type: "integer" }] },
};
const inputSchema = jsonSchema({ type: "object", properties });
const answer = await generateText({ model, prompt: "Hello", tools: { store: tool({ description: "Stores.", inputSchema }) } });
server.close();
const shown = asked.tools[0].functionDeclarations[0].parameters.properties;
console.log("shown", JSON.stringify(shown), "warnings", JSON.stringify(answer.warnings));
assert.deepEqual(shown, {
  document: { type: "boolean", properties: {} },
  pages: { type: "integer" },
  ticket: { type: "string" },
  priority: { type: "integer", format: "enum", enum: ["1", "2"] },
  range: { type: "array" },
});
assert.deepEqual(answer.warnings ?? [], []);
JS
node ask.mjs
