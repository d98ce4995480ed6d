#!/usr/bin/env bash
# LiteLLM (PyPI litellm 1.110.2) puts the signature of Gemini's thoughts into the id of a tool call, behind `__thought__`: an id of 1,244 characters here.
# Whoever shortens ids to what other providers take has it send a part of the signature to Gemini, without a word; whoever gives ids of their own
# has it send a placeholder that tells Gemini to check nothing (base64 of `skip_thought_signature_validator`). Only LiteLLM itself takes the
# signature out of the id where the conversation goes on at another provider. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check litellm==1.110.2
cat >ids.py <<'PYTHON'
import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import litellm

SIGNATURE = base64.b64encode(b"signature" * 100).decode()
PART = {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": SIGNATURE}
USAGE = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
CANDIDATE = {"content": {"role": "model", "parts": [PART]}, "finishReason": "STOP", "index": 0}
ANSWER = {"candidates": [CANDIDATE], "usageMetadata": USAGE}
OTHER = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}
asked = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        chat = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [OTHER]}
        answer = json.dumps(chat if "chat/completions" in self.path else ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "read", "parameters": parameters}}]
question = [{"role": "user", "content": "Read a."}]


def ask(model, messages):
    url = f"http://127.0.0.1:{provider.server_port}"
    return litellm.completion(model, messages=messages, tools=tools, api_key="key", api_base=url).choices[0].message


def go_on(call_id):
    """What Gemini, and another provider, get of a conversation whose call has this id: the signature, and the id."""
    call = {"id": call_id, "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    messages = [*question, said, {"role": "tool", "tool_call_id": call_id, "content": "1"}]
    ask("gemini/gemini-3-pro-preview", messages)
    parts = [part for content in asked[-1]["contents"] for part in content["parts"]]
    (signature,) = (part["thoughtSignature"] for part in parts if "thoughtSignature" in part)
    ask("openai/gpt-5", messages)
    (elsewhere,) = (call["id"] for message in asked[-1]["messages"] for call in message.get("tool_calls", []))
    return signature, elsewhere


call_id = ask("gemini/gemini-3-pro-preview", question).tool_calls[0].id
whole, cut, own = go_on(call_id), go_on(call_id[:64]), go_on("call_1")
print(f"litellm {version('litellm')}: an id of {len(call_id)} characters, {call_id[:60]}…")
print(f"sent to Gemini: {len(whole[0])} characters, for a shortened id {cut[0]!r}, for another id {base64.b64decode(own[0])!r}")
assert len(call_id) == 1244 and call_id.endswith(f"__thought__{SIGNATURE}"), call_id
assert whole == (SIGNATURE, call_id.split("__thought__")[0]), whole
assert SIGNATURE.startswith(cut[0]) and 0 < len(cut[0]) < 64, cut
assert base64.b64decode(own[0]) == b"skip_thought_signature_validator" and own[1] == "call_1", own
PYTHON
LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python ids.py 2>errors || {
  cat errors >&2
  exit 1
}
