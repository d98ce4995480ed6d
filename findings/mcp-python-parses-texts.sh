#!/usr/bin/env bash
# The Python SDK of the Model Context Protocol parses a text argument that is JSON before the function gets it, unless the parameter is `str` and
# nothing else: for `str | None` or `str | list[str]`, which are listed as taking a string, the text of a JSON file is refused ("Input should be a valid
# string", with an object that nobody sent), `null` becomes nothing, and `["a"]` a list. A tool that writes files with an optional
# text can write any file but those. Exits non-zero if that changes.
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

server = Server("texts")


@server.tool()
def plain(text: str) -> str:
    return repr(text)


@server.tool()
def optional(text: str | None = None) -> str:
    return repr(text)


@server.tool()
def several(text: str | list[str]) -> str:
    return repr(text)


async def main():
    logging.disable()
    async with connect(server) as client:
        for name in ["plain", "optional", "several"]:
            for text in ["a", '{"a": 1}', '["a"]', "null"]:
                said = (await client.call_tool(name, {"text": text})).model_dump()
                answer = said["content"][0]["text"]
                is_refused = said.get("isError", said.get("is_error"))
                assert not is_refused or "Input should be a valid string" in answer, answer
                print(name, text, "->", "refused" if is_refused else answer)


asyncio.run(main())
PYTHON
expected="plain a -> 'a'
plain {\"a\": 1} -> '{\"a\": 1}'
plain [\"a\"] -> '[\"a\"]'
plain null -> 'null'
optional a -> 'a'
optional {\"a\": 1} -> refused
optional [\"a\"] -> refused
optional null -> None
several a -> 'a'
several {\"a\": 1} -> refused
several [\"a\"] -> ['a']
several null -> refused"
for pair in 1.30.0:first 2.3.0:second; do
  version=${pair%:*}
  python3 -m venv "$home/$version"
  "$home/$version/bin/pip" install -q --disable-pip-version-check "mcp==$version"
  cp "$home/${pair#*:}.py" "$home/sdk.py"
  seen=$("$home/$version/bin/python" -B "$home/tools.py" 2> /dev/null)
  printf 'mcp %s\n%s\n' "$version" "$seen"
  [ "$seen" = "$expected" ] || { echo "it is otherwise now" >&2; exit 1; }
done
