"""Compares the totals of moec analyze --table with the checkpoint's headers."""

import csv
import json

import pytest

# Covers separate and fused experts, biases, a shared expert, a tied head, and dense models, in bf16, f16 and f32.
CASES = ("tinymoe", "mixtral_a", "mixtral_b", "olmoe_a", "qwen2_moe_a", "glm4_moe_b", "gpt_oss_a", "granitemoehybrid_c",
         "llama_a", "llama_b", "mistral_b", "qwen2_a", "qwen3_b")
WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}


def headers(checkpoint):
    """Maps the name of each tensor to (elements, bytes), from the headers alone."""
    tensors = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        if path.name == "golden.safetensors":
            continue
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = ((end - begin) // WIDTHS[entry["dtype"]], end - begin)
    return tensors


def chosen_share(config):
    experts = next((config[key] for key in ("num_experts", "num_local_experts", "n_routed_experts") if key in config), 0)
    return (config["num_experts_per_tok"], experts) if experts else (0, 1)


def totals(checkpoint):
    """Returns (parameters, active parameters, bytes, bytes read per token), derived from the tensors' names."""
    config = json.loads((checkpoint / "config.json").read_text())
    tensors = headers(checkpoint)
    embedding = tensors["model.embed_tokens.weight"]
    experts = [sizes for name, sizes in tensors.items() if ".experts." in name]
    chosen, all_experts = chosen_share(config)
    found = []
    for kind in (0, 1):
        whole = sum(sizes[kind] for sizes in tensors.values())
        of_experts = sum(sizes[kind] for sizes in experts)
        used = whole - of_experts + of_experts * chosen // all_experts
        if "lm_head.weight" in tensors:
            used -= embedding[kind]
        found += [whole, used]
    found[3] += embedding[1] // config["vocab_size"]  # one row of the embedding
    return found


def table_of(folder):
    with (folder / "table.csv").open() as file:
        return {row["metric"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("case", CASES)
def test_totals_match_the_headers(case, moec, golden, export, tmp_path):
    checkpoint = golden(case).checkpoint
    moec("analyze", export(checkpoint), "--table", "--repeats", "1", "--baseline", checkpoint, "--out", tmp_path)
    rows = table_of(tmp_path)
    parameters, active, size, read = totals(checkpoint)
    for column in ("model", "baseline"):
        assert int(rows["parameters"][column]) == parameters
        assert int(rows["active_parameters"][column]) == active
    assert int(rows["weight_bytes"]["baseline"]) == size
    assert int(rows["token_bytes"]["baseline"]) == read
    assert rows["parameters"]["ratio"] == "1"
