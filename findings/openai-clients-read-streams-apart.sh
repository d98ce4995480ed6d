#!/usr/bin/env bash
# OpenAI's two clients read one stream of a chat apart. Where it breaks off between two tool calls, with neither a finish_reason nor `[DONE]`, as behind a
# proxy that ends it cleanly, the one for Python (PyPI openai 3.57.0) gives from `get_final_completion()` a whole answer with the first call alone;
# the one for JavaScript (npm openai 7.59.0) throws. Where each piece of a call repeats its id and name, as NVIDIA NIM was reported to send
# them, the Python one joins them to `call_1call_1` and `readread`, a tool that nobody has; the JavaScript one has `call_1` and `read`.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts openai@7.59.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check openai==3.57.0 httpx==0.28.1
cat >streams.py <<'PYTHON'
"""Writes what a server sends: `broken`, that breaks off, and `repeated`, whose pieces repeat the id and the name."""
import json


def piece(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def call(arguments):
    function = {"name": "read", "arguments": arguments}
    return piece({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})


first = piece({"role": "assistant", "content": None})
broken = [first, call('{"path":"a"}')]
repeated = [first, call('{"path":'), call('"a"}'), piece({}, "tool_calls")]
for name, pieces, end in [("broken", broken, ""), ("repeated", repeated, "data: [DONE]\n\n")]:
    with open(name, "w") as file:
        file.write("".join(f"data: {json.dumps(one)}\n\n" for one in pieces) + end)
PYTHON
cat >read.py <<'PYTHON'
from importlib.metadata import version

import httpx
import openai


def final(name):
    with open(name, "rb") as file:
        body = file.read()
    answer = lambda request: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = openai.OpenAI(api_key="key", base_url="http://model.example", http_client=http)
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Read a and b."}]) as stream:
        choice = stream.get_final_completion().choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    return choice.finish_reason, calls


seen = [final("broken"), final("repeated")]
print("Python", version("openai"), seen)
assert seen == [
    (None, [("call_1", "read", '{"path":"a"}')]),
    ("tool_calls", [("call_1call_1", "readread", '{"path":"a"}')]),
], seen
PYTHON
cat >read.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import OpenAI from "openai";
const final = async (name) => {
  const fetch = async () => new Response(readFileSync(name), { headers: { "content-type": "text/event-stream" } });
  const client = new OpenAI({ apiKey: "key", baseURL: "http://model.example", fetch });
  const messages = [{ role: "user", content: "Read a and b." }];
  try {
    const [choice] = (await client.chat.completions.stream({ model: "m", messages }).finalChatCompletion()).choices;
    return choice.message.tool_calls.map((call) => [call.id, call.function.name, call.function.arguments]);
  } catch (error) {
    return error.message;
  }
};
const seen = [await final("broken"), await final("repeated")];
console.log("JavaScript 7.59.0", JSON.stringify(seen));
assert.deepEqual(seen, ["missing finish_reason for choice 0", [["call_1", "read", '{"path":"a"}']]]);
JS
python3 streams.py
venv/bin/python read.py
node read.mjs
