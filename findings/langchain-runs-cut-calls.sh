#!/usr/bin/env bash
# An agent of LangChain (PyPI langchain 1.5.2, langchain-core 1.8.3, langchain-openai 1.7.4) carries out a tool call that the limit of tokens cut off in
# the middle, where the answer is streamed: what is missing of the JSON is made up, so that the beginning `{"path": "/srv/carts/old` of a longer path
# becomes a whole call for /srv/carts/old. `finish_reason: length` is not looked at. The same answer in one piece is an invalid call, and nothing is
# carried out. `stream(stream_mode="messages")` streams without being told to, so the same agent does either. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3 langchain-openai==1.7.4 langgraph==1.2.24
cat >agent.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

CUT = {"name": "remove", "arguments": '{"path": "/srv/carts/old'}  # and `-but-needed"}`, had there been more tokens


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["messages"][-1]["role"] == "tool":
            part, reason = {"content": "Done."}, "stop"
        else:
            part, reason = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": CUT}]}, "length"
        part["role"] = "assistant"
        answer = {"id": "1", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": reason}]}
        self.send_response(200)
        if asked.get("stream"):
            answer |= {"object": "chat.completion.chunk"}
            answer["choices"][0]["delta"] = part
            kind, body = "text/event-stream", f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n"
        else:
            answer |= {"object": "chat.completion"}
            answer["choices"][0]["message"] = {"content": None} | part
            kind, body = "application/json", json.dumps(answer)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


removed = []


def remove(path: str) -> str:
    """Removes a folder."""
    removed.append(path)
    return "Removed."


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
agent = create_agent(ChatOpenAI(model="m", base_url=url, api_key="none"), [remove])
question = {"messages": [{"role": "user", "content": "Tidy up."}]}
print({name: version(name) for name in ("langchain", "langchain-core", "langchain-openai", "langgraph")})

answer = agent.invoke(question)["messages"][1]
print("in one piece", removed, answer.response_metadata["finish_reason"], answer.tool_calls, answer.invalid_tool_calls[0]["args"])
assert removed == [] and answer.tool_calls == [] and answer.invalid_tool_calls

list(agent.stream(question, stream_mode="messages"))
print("streamed", removed)
assert removed == ["/srv/carts/old"], removed
PYTHON
venv/bin/python agent.py
