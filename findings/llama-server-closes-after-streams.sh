#!/usr/bin/env bash
# llama.cpp's server announces `Keep-Alive: timeout=5, max=100` with every answer and keeps connections after whole
# ones, but ends the connection after every streamed one, with no `Connection: close`. A client that keeps connections
# and sends its next request at once writes it into one that is closing: it gets no answer at all, and can't know
# whether the request was worked on.
set -euo pipefail
home=$(mktemp -d)
trap 'kill "${server:-0}" 2>/dev/null || true; rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install -q --disable-pip-version-check xllamacpp==2026.10.11549 gguf==0.19.0
cat > "$home/serve.py" <<'PYTHON'
"""A model whose tokens are bytes and whose weights are chance, behind the server of llama.cpp."""
import sys
import time

import gguf
import numpy as np
import xllamacpp

path, width, chance = sys.argv[1], 32, np.random.default_rng(3)
numbers = lambda rows, columns: (chance.standard_normal((rows, columns)) / 8).astype(np.float32)
words = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
model = gguf.GGUFWriter(path, "llama")
model.add_context_length(2048)
model.add_embedding_length(width)
model.add_block_count(1)
model.add_feed_forward_length(width)
model.add_head_count(4)
model.add_head_count_kv(4)
model.add_layer_norm_rms_eps(1e-5)
model.add_rope_dimension_count(8)
model.add_vocab_size(len(words))
model.add_tokenizer_model("llama")
model.add_token_list(words)
model.add_token_scores([0.0] * len(words))
model.add_token_types([2, 3, 3] + [6] * 256)
model.add_eos_token_id(2)
model.add_tensor("token_embd.weight", numbers(len(words), width))
model.add_tensor("output.weight", numbers(len(words), width))
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    model.add_tensor(name + ".weight", np.ones(width, np.float32))
for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
    model.add_tensor(f"blk.0.{name}.weight", numbers(width, width))
model.write_header_to_file()
model.write_kv_data_to_file()
model.write_tensors_to_file()
model.close()
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel, settings.port = path, 2048, 1, 0
server = xllamacpp.Server(settings)
print("url", server.listening_address, flush=True)
time.sleep(600)
PYTHON
cat > "$home/ask.py" <<'PYTHON'
import http.client
import json
import sys

def ask(connection, stream):
    body = {"max_tokens": 4, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.getheader("keep-alive"), answer.getheader("connection")

def second(stream):
    """The headers of a first answer, and what the same connection says to a second request."""
    connection = http.client.HTTPConnection(sys.argv[1].removeprefix("http://"))
    headers = ask(connection, stream)
    try:
        ask(connection, stream)
        return headers, "answered"
    except (http.client.RemoteDisconnected, ConnectionError) as error:
        return headers, "no answer"

whole, streamed = second(False), second(True)
print("whole answers:   ", whole)
print("streamed answers:", streamed)
kept = ("timeout=5, max=100", None)
sys.exit(0 if whole == (kept, "answered") and streamed == (kept, "no answer") else 1)
PYTHON
"$home/venv/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -i xllamacpp
"$home/venv/bin/python" "$home/serve.py" "$home/model.gguf" > "$home/out" 2> "$home/err" &
server=$!
for _ in $(seq 100); do grep -q '^url ' "$home/out" && break; sleep 0.1; done
"$home/venv/bin/python" "$home/ask.py" "$(sed -n 's/^url //p' "$home/out")"
