#!/usr/bin/env bash
# Slack's framework Bolt (PyPI slack-bolt 1.30.0, npm @slack/bolt 5.1.0) compares the pattern of `app.message()` with a message as Slack writes it for
# programs: `&`, `<` and `>` arrive as `&amp;`, `&lt;` and `&gt;`, and a link as `<https://…>`. `app.message("R&D")` so never hears a person who writes
# R&D, nor does `^https://` hear one who posts a link, and nothing says so: a test that sends the text as a person reads it passes.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @slack/bolt@5.1.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check slack-bolt==1.30.0 slack_sdk==3.48.0
cat >hear.cjs <<'JS'
const assert = require("node:assert");
const { App } = require("@slack/bolt");
let heard = [];
const receiver = { init: (app) => { receiver.app = app; }, start: () => {}, stop: () => {} };
const authorize = async () => ({ botToken: "token", botId: "B1", botUserId: "U1" });
const app = new App({ receiver, authorize, logLevel: "error" });
app.message("R&D", async () => { heard.push("R&D"); });
app.message(/^https:/, async () => { heard.push("link"); });
const send = async (text) => {
  heard = [];
  const event = { type: "message", channel: "C1", user: "U2", ts: "1.1", text };
  await receiver.app.processEvent({ body: { type: "event_callback", team_id: "T1", event }, ack: async () => {} });
  return heard;
};
(async () => {
  const seen = {};
  for (const text of ["R&D", "https://example.org", "R&amp;D", "<https://example.org>"]) seen[text] = await send(text);
  console.log("@slack/bolt 5.1.0:", seen);
  assert.deepEqual(Object.values(seen), [["R&D"], ["link"], [], []]);
})();
JS
cat >hear.py <<'PYTHON'
import json
import logging
import re
from importlib.metadata import version

from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult

logging.disable(logging.WARNING)
heard = []
who = AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="token", bot_id="B1", bot_user_id="U1")
app = App(
    signing_secret="secret", request_verification_enabled=False, process_before_response=True, authorize=lambda **_: who
)


@app.message("R&D")
def name(message):
    heard.append("R&D")


@app.message(re.compile("^https:"))
def link(message):
    heard.append("link")


def send(text):
    heard.clear()
    event = {"type": "message", "channel": "C1", "user": "U2", "ts": "1.1", "text": text}
    body = json.dumps({"type": "event_callback", "team_id": "T1", "event": event})
    app.dispatch(BoltRequest(body=body, headers={"content-type": ["application/json"]}))
    return list(heard)


seen = {text: send(text) for text in ["R&D", "https://example.org", "R&amp;D", "<https://example.org>"]}
print("slack-bolt", version("slack-bolt"), seen)
assert list(seen.values()) == [["R&D"], ["link"], [], []], seen
PYTHON
node hear.cjs
venv/bin/python hear.py
