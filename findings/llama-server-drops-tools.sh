#!/usr/bin/env bash
# llama.cpp's server answers a request with tools and `tool_choice: required` with 200 and plain text, and shows the model
# none of the tools, where the model's chat template has no place for them (its own default template has none): the
# prompt has the same number of tokens with tools and without. Only GET /props says so beforehand
# (`chat_template_caps.supports_tools`); neither the list of models nor the answer does. A client that relies on
# "required" waits for calls that can't come.
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

path, template = sys.argv[1:]
chance, width = np.random.default_rng(3), 32
numbers = lambda rows, columns: (chance.standard_normal((rows, columns)) / 8).astype(np.float32)
words = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
model = gguf.GGUFWriter(path, "llama")
for add, value in [
    (model.add_context_length, 8192), (model.add_embedding_length, width), (model.add_block_count, 1),
    (model.add_feed_forward_length, width), (model.add_head_count, 4), (model.add_head_count_kv, 4),
    (model.add_layer_norm_rms_eps, 1e-5), (model.add_rope_dimension_count, 8), (model.add_vocab_size, len(words)),
    (model.add_tokenizer_model, "llama"), (model.add_token_list, words), (model.add_token_scores, [0.0] * len(words)),
    (model.add_token_types, [2, 3, 3] + [6] * 256), (model.add_unk_token_id, 0), (model.add_bos_token_id, 1),
    (model.add_eos_token_id, 2),
]:
    add(value)
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
settings.model.path, settings.n_ctx, settings.n_parallel, settings.port = path, 8192, 1, 0
settings.use_jinja = True
if template:
    settings.chat_template = template
server = xllamacpp.Server(settings)
print("url", server.listening_address, flush=True)
time.sleep(600)
PYTHON
cat > "$home/ask.py" <<'PYTHON'
import json
import sys
import urllib.request

def get(path, body=None):
    data = body and json.dumps(body).encode()
    request = urllib.request.Request(sys.argv[1] + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.status, json.load(answer)

tool = {"type": "function", "function": {"name": "read_file", "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}
plain = {"max_tokens": 4, "messages": [{"role": "user", "content": "Read a.txt"}]}
caps = get("/props")[1]["chat_template_caps"]["supports_tools"]
_, without = get("/v1/chat/completions", plain)
status, given = get("/v1/chat/completions", {**plain, "tools": [tool], "tool_choice": "required"})
tokens = [answer["usage"]["prompt_tokens"] for answer in (without, given)]
calls = bool(given["choices"][0]["message"].get("tool_calls"))
print(f"supports_tools {caps}, status {status}, prompt tokens {tokens[0]} without tools and {tokens[1]} with them, calls {calls}")
sys.exit(0 if (caps is False) == (tokens[0] == tokens[1] and status == 200 and not calls) else 1)
PYTHON
"$home/venv/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -i xllamacpp
aware='{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<call>{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}
{% endfor %}assistant:'
for template in "" "$aware"; do
  "$home/venv/bin/python" "$home/serve.py" "$home/model.gguf" "$template" > "$home/out" 2> "$home/err" &
  server=$!
  for _ in $(seq 100); do grep -q '^url ' "$home/out" && break; sleep 0.1; done
  echo "template: ${template:-the default one of the server}" | head -c 60; echo
  "$home/venv/bin/python" "$home/ask.py" "$(sed -n 's/^url //p' "$home/out")"
  kill "$server"; wait "$server" 2>/dev/null || true
done
