#!/usr/bin/env bash
# The Python SDK of the Model Context Protocol writes one piece of content for each entry of a list that a tool returns,
# and does the same inside of each entry: rows [["a", 1], ["b", 2]] arrive as four texts in a row, and an empty list as no
# content at all. The list as it was is in `structuredContent`, and only where the function says what it returns.
# A client that shows a model the content alone shows it neither rows nor that nothing was found.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cat > "$home/first.py" <<'PYTHON'
from mcp.server.fastmcp import FastMCP as Server
from mcp.shared.memory import create_connected_server_and_client_session


def connect(server):
    return create_connected_server_and_client_session(server._mcp_server)
PYTHON
cat > "$home/second.py" <<'PYTHON'
from mcp.client.client import Client as connect
from mcp.server.mcpserver import MCPServer as Server
PYTHON
cat > "$home/tools.py" <<'PYTHON'
import asyncio
import logging

from sdk import Server, connect

server = Server("rows")


@server.tool()
def plain():
    return [["a", 1], ["b", 2]]


@server.tool()
def typed() -> list[list[int]]:
    return [[1, 2], [3]]


@server.tool()
def nothing() -> list[str]:
    return []


async def main():
    logging.disable()
    async with connect(server) as client:
        for name in ["plain", "typed", "nothing"]:
            said = (await client.call_tool(name, {})).model_dump()
            structured = said.get("structuredContent", said.get("structured_content"))
            print(name, [piece["text"] for piece in said["content"]], structured)


asyncio.run(main())
PYTHON
expected="plain ['a', '1', 'b', '2'] None
typed ['1', '2', '3'] {'result': [[1, 2], [3]]}
nothing [] {'result': []}"
for pair in 1.30.0:first 2.3.0:second; do
  version=${pair%:*}
  python3 -m venv "$home/$version"
  "$home/$version/bin/pip" install -q --disable-pip-version-check "mcp==$version"
  cp "$home/${pair#*:}.py" "$home/sdk.py"
  seen=$("$home/$version/bin/python" -B "$home/tools.py" 2> /dev/null)
  printf 'mcp %s\n%s\n' "$version" "$seen"
  [ "$seen" = "$expected" ] || { echo "it is otherwise now" >&2; exit 1; }
done
