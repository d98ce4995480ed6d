#!/usr/bin/env bash
# The official MCP server `fetch` (PyPI mcp-server-fetch 2026.10.10), in Python, runs `npm install` at the first page in HTML where Node.js is installed:
# what npm prints goes into the stream of MCP messages, where a client finds lines that are no JSON. Where npm reaches no registry, as behind
# an allowlist of hosts, the call fails with npm's exit status, and so does each later one; without Node.js on the PATH the same page is answered.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mcp-server-fetch==2026.10.10
cat >use.py <<'PYTHON'
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><article><h1>Carts</h1><p>All of them.</p></article></body></html>")

    def log_message(self, *_):
        pass


pages = ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=pages.serve_forever, daemon=True).start()


def fetch(**environment):
    """Lines that are no messages, and the answer to the second of two calls."""
    server = subprocess.Popen(
        [os.path.abspath("venv/bin/mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment},
    )
    noise = []

    def ask(number, method, params):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                noise.append(line.strip())
                continue
            if answer.get("id") == number:
                return answer["result"]

    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}})
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    call = {"name": "fetch", "arguments": {"url": f"http://127.0.0.1:{pages.server_port}/"}}
    ask(2, "tools/call", call)
    answer = ask(3, "tools/call", call)
    server.stdin.close()
    server.wait()
    return [line for line in noise if line], answer["content"][0]["text"].split("\n", 1)[-1].strip()


without = fetch(PATH="/nowhere")
closed = fetch(npm_config_registry="http://127.0.0.1:9/", npm_config_fetch_retries="0")
reached = fetch()
print("mcp-server-fetch 2026.10.10, the second answer and the lines that are no JSON")
for name, (noise, text) in {"no Node.js": without, "no registry": closed, "npm works": reached}.items():
    print(f"{name}: {text!r}, {noise}")
assert without[0] == [] and "All of them." in without[1], without
assert "All of them." not in closed[1] and "npm" in closed[1], closed
assert any("packages" in line for line in reached[0]) and "All of them." in reached[1], reached
PYTHON
venv/bin/python use.py
