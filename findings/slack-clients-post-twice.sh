#!/usr/bin/env bash
# Slack's own clients post a message twice where its answer is lost on the way: with their defaults, `chat.postMessage` is sent again after a connection
# that was closed without an answer, once by the one for Python (slack_sdk 3.48.0) and, after a second, by the one for JavaScript (@slack/web-api 8.2.0).
# Neither adds anything by which Slack could tell the second request from a new message. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @slack/web-api@8.2.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check slack_sdk==3.48.0
cat >post.cjs <<'JS'
const { WebClient, LogLevel } = require("@slack/web-api");
new WebClient("token", { slackApiUrl: process.argv[2], logLevel: LogLevel.ERROR }).chat.postMessage({ channel: "C1", text: "Deployed" });
JS
cat >post.py <<'PYTHON'
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from slack_sdk import WebClient

posts = []


class Slack(BaseHTTPRequestHandler):
    def do_POST(self):
        posts.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.close_connection = True
        if len(posts) == 1:
            return  # The message is there, and its answer never leaves.
        body = b'{"ok": true, "channel": "C1", "ts": "1.1"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


slack = ThreadingHTTPServer(("127.0.0.1", 0), Slack)
threading.Thread(target=slack.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{slack.server_port}/"
clients = {
    "slack_sdk 3.48.0": lambda: WebClient(token="token", base_url=url).chat_postMessage(channel="C1", text="Deployed"),
    "@slack/web-api 8.2.0": lambda: subprocess.run(["node", "post.cjs", url], check=True, timeout=60),
}
for name, post in clients.items():
    posts.clear()
    post()
    print(name, posts)
    assert len(posts) == 2 and posts[0] == posts[1], posts
PYTHON
venv/bin/python post.py
