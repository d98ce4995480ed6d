#!/usr/bin/env bash
# The clients of both official SDKs of MCP (npm @modelcontextprotocol/sdk 1.32.2, PyPI mcp 2.3.0) never begin a new session: once a server with sessions
# was started anew, every call ends in "Session not found", until the program that holds the client makes another one. MCP 2025-11-25 says that
# a client MUST begin a new session at such a 404. The server here, in Python (mcp 1.30.0), answers it as specified, and a new client gets on with it at
# once. A rolling update of a server so takes its tools from every agent that was connected. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "$(cat "$work/server" 2>/dev/null)" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2 >/dev/null
python3 -m venv server-venv
server-venv/bin/pip install -q --disable-pip-version-check mcp==1.30.0
python3 -m venv client-venv
client-venv/bin/pip install -q --disable-pip-version-check mcp==2.3.0
cat >serve.py <<'PYTHON'
import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("finding", port=int(sys.argv[1]), log_level="ERROR")


@server.tool()
def ping() -> str:
    return "pong"


server.run("streamable-http")
PYTHON
cat >start.py <<'PYTHON'
"""Starts the server, or starts it anew at its address, and waits until it listens."""
import os
import signal
import socket
import subprocess
import sys
import time

port = int(sys.argv[1])


def listens():
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if os.path.exists("server"):
    with open("server") as file:
        os.kill(int(file.read()), signal.SIGTERM)
    while listens():
        time.sleep(0.05)
server = subprocess.Popen(
    ["server-venv/bin/python", "serve.py", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
)
with open("server", "w") as file:
    file.write(str(server.pid))
while not listens():
    assert server.poll() is None, "the server ended"
    time.sleep(0.05)
PYTHON
cat >call.mjs <<'JS'
import assert from "node:assert";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const port = process.argv[2];
const start = () => promisify(execFile)("python3", ["start.py", port]);
const connect = async () => {
  const client = new Client({ name: "finding", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
  return client;
};
const call = (client) =>
  client.callTool({ name: "ping", arguments: {} }).then(
    (answer) => answer.content[0].text,
    (error) => /Session not found/.exec(error.message)?.[0] ?? error.message,
  );
await start();
const client = await connect();
const seen = [await call(client)];
await start();
seen.push(await call(client), await call(client), await call(await connect()), await call(client));
console.log("TypeScript SDK 1.32.2:", seen.join(", "));
assert.deepEqual(seen, ["pong", "Session not found", "Session not found", "pong", "Session not found"]);
process.exit();
JS
cat >call.py <<'PYTHON'
import asyncio
import subprocess
import sys
from importlib.metadata import version

from mcp import Client, MCPError

port = sys.argv[1]
url = f"http://127.0.0.1:{port}/mcp"


def start():
    subprocess.run(["python3", "start.py", port], check=True)


async def call(client):
    try:
        return (await client.call_tool("ping", {})).content[0].text
    except MCPError as error:
        return error.message


async def main():
    start()
    async with Client(url) as client:
        seen = [await call(client)]
        start()
        seen += [await call(client), await call(client)]
        async with Client(url) as another:
            seen += [await call(another), await call(client)]
    print(f"Python SDK {version('mcp')}: {', '.join(seen)}")
    assert seen == ["pong", "Session not found", "Session not found", "pong", "Session not found"], seen


asyncio.run(main())
PYTHON
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node call.mjs "$port"
client-venv/bin/python call.py "$port" 2>errors || {
  cat errors >&2
  exit 1
}
