#!/usr/bin/env bash
# A tool of LangChain (PyPI langchain-core 1.8.3) never gets an argument that is named `config`. Its own functions show the model such a parameter, and
# each call is without it: an optional one silently has its default, and a required one fails for a missing argument that the model did send.
# Tools of MCP servers (langchain-mcp-adapters 0.3.2), whose names nobody on this side chose, lose `config`, `run_manager` and `runtime`: the model is
# shown all of them, and the server gets the others alone. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check langchain-core==1.8.3 langchain-mcp-adapters==0.3.2 mcp==1.30.0
cat >server.py <<'PYTHON'
from mcp.server.fastmcp import FastMCP

server = FastMCP("deployments")


@server.tool()
def deploy(app: str, config: str = "staging", run_manager: str = "none", runtime: str = "none") -> str:
    return f"{app}, {config}, {run_manager}, {runtime}"


server.run()
PYTHON
cat >use.py <<'PYTHON'
import asyncio
import sys
from importlib.metadata import version

from langchain_core.tools import tool
from langchain_mcp_adapters.client import MultiServerMCPClient


@tool
def deploy(app: str, config: str = "staging") -> str:
    """Deploys an app."""
    return f"{app}, {config}"


@tool
def deploy_all(config: dict) -> str:
    """Deploys all apps."""
    return str(config)


async def of_server():
    client = MultiServerMCPClient({"one": {"transport": "stdio", "command": sys.executable, "args": ["server.py"]}})
    (remote,) = await client.get_tools()
    sent = {"app": "carts", "config": "production", "run_manager": "ana", "runtime": "node"}
    answer = await remote.ainvoke(sent)
    return sorted(remote.args), "".join(part["text"] for part in answer)


print({name: version(name) for name in ("langchain-core", "langchain-mcp-adapters", "mcp")})
shown, got = sorted(deploy.args), deploy.invoke({"app": "carts", "config": "production"})
print("own function", shown, "got", got)
assert (shown, got) == (["app", "config"], "carts, staging")
try:
    deploy_all.invoke({"config": {"replicas": 2}})
    raise SystemExit("it got the argument")
except TypeError as error:
    print("own function with a required one", error)
    assert "missing 1 required positional argument: 'config'" in str(error)
shown, got = asyncio.run(of_server())
print("server of MCP", shown, "got", got)
assert (shown, got) == (["app", "config", "run_manager", "runtime"], "carts, staging, none, none")
PYTHON
venv/bin/python use.py
