#!/usr/bin/env bash
# LangChain (PyPI langchain-openai 1.7.4) and Pydantic AI (pydantic-ai-slim 2.68.0) add up the usage of a stream in OpenAI's form where each piece has the
# usage so far, as some servers send it, vLLM with `continuous_usage_stats` among them: the prompt is counted once for each piece, here 400 tokens
# instead of 100, and hundreds of times in an answer of usual length. openai-agents 0.24.0 takes the last usage, and so does Pydantic AI where it was
# told that this server does so (`openai_continuous_usage_stats`). Budgets and traces are wrong by a factor that depends on the answer.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check langchain-openai==1.7.4 langchain-core==1.8.3 pydantic-ai-slim==2.68.0 openai-agents==0.24.0 openai==3.3.0
cat >ask.py <<'PYTHON'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import agents
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for count, word in enumerate(["One ", "two ", "three.", ""], 1):
            tokens = min(count, 3)
            piece = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None if word else "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens},
            }
            self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"


def langchain():
    pieces = iter(ChatOpenAI(model="m", base_url=url, api_key="none", stream_usage=True).stream("Count."))
    whole = next(pieces)
    for piece in pieces:
        whole += piece
    return whole.usage_metadata["input_tokens"], whole.usage_metadata["output_tokens"]


async def pydantic(**settings):
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
    async with Agent(model, model_settings=settings).run_stream("Count.") as run:
        await run.get_output()
        return run.usage.input_tokens, run.usage.output_tokens


async def openai_agents():
    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key="none")
    agent = agents.Agent("counter", model=agents.OpenAIChatCompletionsModel("m", client))
    run = agents.Runner.run_streamed(agent, "Count.")
    async for _ in run.stream_events():
        pass
    usage = run.context_wrapper.usage
    return usage.input_tokens, usage.output_tokens


counted = {
    "langchain-openai": langchain(),
    "pydantic-ai-slim": asyncio.run(pydantic()),
    "openai-agents": asyncio.run(openai_agents()),
}
told = asyncio.run(pydantic(openai_continuous_usage_stats=True))
for name, tokens in counted.items():
    print(name, version(name), tokens)
print("pydantic-ai-slim, told so", told)
assert list(counted.values()) == [(400, 9), (400, 9), (100, 3)], counted
assert told == (100, 3), told
PYTHON
venv/bin/python ask.py
