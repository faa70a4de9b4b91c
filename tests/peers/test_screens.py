"""The summaries of a deep model fit a screen of 40 lines, and their tables 100 columns."""

import json
import re
import subprocess

import pytest

from conftest import find_binary

LAYERS, EXPERTS, HIDDEN = 94, 4, 32
LINES, COLUMNS = 40, 100
# A row of a table has several columns; a terminal wraps sentences and paths. The placement, the last column of moec
# check, may list several units and rules.
ROW = re.compile(r"\S {2,}.*\S {2,}\S.*\S {2,}\S")
LISTS_RULES = "check out --target ane"


@pytest.fixture(scope="module")
def deep(moec, tmp_path_factory):
    """The folder with a config of 94 layers and exports of it: out, and parts with experts in separate shards."""
    folder = tmp_path_factory.mktemp("deep")
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 64,
              "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "num_key_value_heads": 1,
              "head_dim": 16, "intermediate_size": 16, "moe_intermediate_size": 16, "num_experts": EXPERTS,
              "num_experts_per_tok": 2, "norm_topk_prob": True, "hidden_act": "silu", "rms_norm_eps": 1e-6,
              "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": False,
              "decoder_sparse_step": 1, "mlp_only_layers": []}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "ids.txt").write_text(" ".join(str(7 * n % 64) for n in range(64)))
    flags = ("--seeded-weights", 3, "--tokens", "1,16", "--context", 64, "--quiet")
    moec("export", folder / "config.json", "--out", folder / "out", *flags)
    moec("export", folder / "config.json", "--out", folder / "parts", *flags, "--routing", "host",
         "--experts-per-shard", 2)
    return folder


@pytest.mark.parametrize("words", [
    "plan config.json",
    "plan config.json --target ane",
    "plan qwen3-235b-a22b --target ane --weights 4bit",
    "plan deepseek-v3 --max-shard-mb 50",
    "plan kimi-k2 --device a=2TB --device b=3TB --resident-budget 500GB",
    "export config.json --out NEW --seeded-weights 3 --tokens 1",
    "export config.json --out NEW --seeded-weights 3 --tokens 1 --target onnx,ane",
    "inspect out",
    "inspect parts",
    "check out",
    "check parts",
    "check out --target ane",
    "compare parts parts --tokens ids.txt --window 32",
    "compare parts out --tokens ids.txt --window 32",
    "analyze out --tokens ids.txt --window 32 --out NEW",
    "analyze out --table --tokens ids.txt --window 32 --out NEW --repeats 1",
    "discover parts --tokens ids.txt --recall --out NEW",
    "simulate trace",
    "place config.json --nodes 2",
    "split parts --groups 2 --out NEW",
    "run out --prompt-tokens 1,2 --max-tokens 2 --memory-report",
])  # fmt: skip
def test_summary_fits_a_screen(words, deep, moec, tmp_path):
    if words == "simulate trace" and not (deep / "trace").exists():
        moec("trace", deep / "out", "--tokens", deep / "ids.txt", "--window", 32, "--out", deep / "trace")
    command = [str(find_binary()), *words.replace("NEW", str(tmp_path / "new")).split()]
    done = subprocess.run(command, cwd=deep, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode in (0, 1), done.stdout
    lines = done.stdout.splitlines()
    assert 0 < len(lines) <= LINES, done.stdout
    wide = [line for line in lines if len(line) > COLUMNS and ROW.search(line) and words != LISTS_RULES]
    assert not wide, wide
