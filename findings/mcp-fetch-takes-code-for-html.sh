#!/usr/bin/env bash
# The official MCP server `fetch` (PyPI mcp-server-fetch 2026.10.10) takes a page for HTML if `<html` is among its first 100 characters, whatever the page
# says that it is: of a Markdown file (text/markdown) that shows such code near its beginning the code is gone and the lines of a block are lost, and a
# string in an answer of JSON arrives as another one. Nothing in the result says so; with `raw` it comes as it is. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mcp==1.30.0 mcp-server-fetch==2026.10.10
cat >use.py <<'PYTHON'
import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

MARKDOWN = "# Setup\n\nPut `lang` on `<html>`:\n\n```\nnpm ci\nnpm start\n```\n"
PAGES = {
    "/plain.md": ("text/markdown", MARKDOWN.replace("<html>", "html")),
    "/setup.md": ("text/markdown", MARKDOWN),
    "/page.json": ("application/json", '{"template": "<html><p>Hi</p></html>"}'),
}


class Pages(BaseHTTPRequestHandler):
    def do_GET(self):
        kind, text = PAGES[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


async def main():
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    # Without Node.js, which the server would use for pages in HTML.
    options = ["--ignore-robots-txt", "--allow-private-ips"]
    server = StdioServerParameters(command="venv/bin/mcp-server-fetch", args=options, env={"PATH": "/nowhere"})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def fetch(path, raw=False):
            url = f"http://127.0.0.1:{pages.server_port}{path}"
            answer = await session.call_tool("fetch", {"url": url, "raw": raw})
            text = answer.content[0].text.partition(f"Contents of {url}:\n")[2]
            print(path, "raw" if raw else "", repr(text))
            return text.strip()

        assert await fetch("/plain.md") == PAGES["/plain.md"][1].strip()
        assert await fetch("/setup.md", raw=True) == MARKDOWN.strip()
        changed = await fetch("/setup.md")
        assert "<html>" not in changed and "npm ci\nnpm start" not in changed, changed
        changed = await fetch("/page.json")
        assert "html" not in changed and "Hi" in changed, changed


asyncio.run(main())
PYTHON
venv/bin/python use.py
