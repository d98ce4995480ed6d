#!/usr/bin/env bash
# A tool of a server with the Python SDK of MCP that returns a time without a zone (as datetime.now() is one) or a negative timedelta can't be used by a
# client with the TypeScript SDK: the schema that the Python SDK derives says `date-time` or `duration`, which such a value is not by RFC 3339 and ISO
# 8601, and callTool() throws away the whole answer, after the tool has done its work. The Python SDK's own client takes the same answers, since it
# checks no formats. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2 zod@4.6.7 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mcp==1.30.0
cat >serve.py <<'PYTHON'
from datetime import datetime, timedelta, timezone

from mcp.server.fastmcp import FastMCP

server = FastMCP("finding", log_level="ERROR")


@server.tool()
def zoned() -> dict[str, datetime]:
    return {"at": datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)}


@server.tool()
def unzoned() -> dict[str, datetime]:
    return {"at": datetime(2026, 1, 2, 3, 4)}


@server.tool()
def earlier() -> dict[str, timedelta]:
    return {"at": timedelta(hours=-2)}


server.run()
PYTHON
cat >call.mjs <<'JS'
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const client = new Client({ name: "finding", version: "1" });
await client.connect(new StdioClientTransport({ command: "venv/bin/python", args: ["serve.py"] }));
await client.listTools();
const outcomes = {};
for (const name of ["zoned", "unzoned", "earlier"])
  outcomes[name] = await client.callTool({ name, arguments: {} }).then(
    (answer) => answer.structuredContent.at,
    (error) => error.message.replace(/^.*: /, ""),
  );
console.log("TypeScript SDK 1.32.2:", outcomes);
assert.deepEqual(outcomes, {
  zoned: "2026-01-02T03:04:00Z",
  unzoned: 'data/at must match format "date-time"',
  earlier: 'data/at must match format "duration"',
});
await client.close();
JS
cat >call.py <<'PYTHON'
import asyncio
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command="venv/bin/python", args=["serve.py"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        answers = [await session.call_tool(name, {}) for name in ("zoned", "unzoned", "earlier")]
        texts = [answer.structuredContent["at"] for answer in answers]
        print("Python SDK", version("mcp"), texts)
        assert texts[1] == "2026-01-02T03:04:00" and texts[2].startswith("-P"), texts


asyncio.run(main())
PYTHON
node call.mjs
venv/bin/python call.py
