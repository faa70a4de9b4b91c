"""Exports two layers of the ane-book's variant of ZAYA as packages in full size, from the config alone.

All 28 layers take about 14 GB; scripts/bench_zaya_book.sh exports them.
"""

import json

import pytest

from goldens import REPO

CONFIG = REPO / "models/published/zaya-book.json"


@pytest.fixture(scope="module")
def exported(moec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("zaya")
    config = json.loads(CONFIG.read_text())
    config["num_hidden_layers"] = 2
    (folder / "zaya-book.json").write_text(json.dumps(config))
    moec("export", folder / "zaya-book.json", "--out", folder / "out", "--target", "ane", "--context", 512,
         "--seeded-weights", 7, "--compat", "ane-book", "--name", "zaya", "--allow-over-budget",
         "--quiet")
    return folder / "out"


def test_exports_shards_embedding_and_metadata(exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    kinds = [shard["kind"] for shard in manifest["shards"]]
    assert sorted(kinds) == ["attention"] * 2 + ["lm_head"] * 2 + ["moe"] * 2
    meta = json.loads((exported / "zaya_runtime_meta.json").read_text())
    assert meta["model_family"] == "zaya" and meta["n_layers"] == 4
    assert [layer["kind"] for layer in meta["layers"]] == ["attn_stateful", "moe"] * 2
    assert [(s["vocab_start"], s["vocab_end"]) for s in meta["lm_head_shards"]] == [(0, 16000), (16000, 32000)]
    assert (exported / "zaya_embed.bin").stat().st_size == 32000 * 4096 * 2
    for entry in meta["layers"] + meta["lm_head_shards"]:
        package = exported / entry["mlpackage"]
        assert (package / "Data/com.apple.CoreML/weights/weight.bin").is_file()
        assert entry["mlmodelc"] == entry["mlpackage"].replace(".mlpackage", ".mlmodelc")


def test_moe_shards_have_24_expert_convolutions(exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    for shard in manifest["shards"]:
        if shard["kind"] == "moe":
            assert {op["op"]: op["count"] for op in shard["ops"]}["conv"] == 24 + 2  # including the router's two
            router = 8 * 4096 + 8 * (2 * 4096 + 8)
            assert shard["weight_bytes"] == 2 * (3 * 8 * 4096 * 2048 + router + 4096)


@pytest.mark.parametrize("chip", ["m1", "m2", "m3", "m4"])
def test_compute_ops_run_on_the_neural_engine(moec, exported, chip):
    moec("check", exported, "--chip", chip, "--no-digests", "--allow-over-budget")  # 1 below 100 %
