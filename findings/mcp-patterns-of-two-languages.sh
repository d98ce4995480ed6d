#!/usr/bin/env bash
# A regular expression in what a tool of MCP returns ends at the other official SDK, since each compiles it in its own language. `/^\p{L}+$/u` of a
# server in TypeScript makes the Python SDK's client raise at the call, after the tool has done its work. `(?i)` of a server in Python, which pydantic
# takes, makes listTools() of the TypeScript SDK throw: all tools of that server are gone, not only the one. Each server works with a client of its
# own language. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2 zod@4.6.7 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mcp==1.30.0
cat >serve.mjs <<'JS'
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";
const server = new McpServer({ name: "finding", version: "1" });
for (const [name, said] of Object.entries({ plain: z.string(), letters: z.string().regex(/^\p{L}+$/u) }))
  server.registerTool(name, { outputSchema: { said } }, () => ({ content: [], structuredContent: { said: "Zoë" } }));
await server.connect(new StdioServerTransport());
JS
cat >serve.py <<'PYTHON'
import sys
from typing import Annotated

from mcp.server.fastmcp import FastMCP
from pydantic import Field

server = FastMCP("finding", log_level="ERROR")


@server.tool()
def plain() -> str:
    return "v1"


if "pattern" in sys.argv:

    @server.tool()
    def versioned() -> Annotated[str, Field(pattern=r"(?i)^v\d+$")]:
        return "V1"


server.run()
PYTHON
cat >use.mjs <<'JS'
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const listed = async (command, ...args) => {
  const client = new Client({ name: "finding", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  return client.listTools().then(({ tools }) => tools.map(({ name }) => name).join(), (error) => error.message).finally(() => client.close());
};
const own = await listed("node", "serve.mjs");
const other = await listed("venv/bin/python", "serve.py");
const pattern = await listed("venv/bin/python", "serve.py", "pattern");
console.log("TypeScript SDK 1.32.2 lists:", { own, other, pattern });
assert.equal(own, "plain,letters");
assert.equal(other, "plain");
assert.match(pattern, /Invalid regular expression/);
JS
cat >use.py <<'PYTHON'
import asyncio
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def used(names, command, *args):
    server = StdioServerParameters(command=command, args=list(args))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        outcomes = {}
        for name in names:
            try:
                outcomes[name] = list((await session.call_tool(name, {})).structuredContent.values())
            except RuntimeError as error:
                outcomes[name] = str(error).splitlines()[0]
        return outcomes


own = asyncio.run(used(["plain", "versioned"], "venv/bin/python", "serve.py", "pattern"))
other = asyncio.run(used(["plain", "letters"], "node", "serve.mjs"))
print("Python SDK", version("mcp"), own, other)
assert own == {"plain": ["v1"], "versioned": ["V1"]}, own
assert other["plain"] == ["Zoë"] and "is not a 'regex'" in other["letters"], other
PYTHON
node use.mjs
venv/bin/python use.py
