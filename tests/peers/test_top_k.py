"""Top-k variants in onnxruntime: each matches transformers' logits with that number of experts."""

import json
import math

import numpy as np
import pytest

from goldens import REPO, Golden
from run_with_onnxruntime import Runner

NAMES = sorted(path.parent.name for path in (REPO / "tests/golden/top_k").glob("*/golden.json"))


def forms_of(folder):
    return [form["name"] for form in json.loads((folder / "manifest.json").read_text())["top_k"]["forms"]]


def logits_of(runner, want):
    runner.reset()
    return np.concatenate([runner.feed(tokens) for _, _, tokens in want.steps])


@pytest.mark.parametrize("flags", [(), ("--routing", "host", "--experts-per-shard", "2")], ids=["fused", "host"])
@pytest.mark.parametrize("name", NAMES)
def test_variant_matches_the_logits_of_its_golden(name, flags, export, golden):
    want = Golden(f"top_k/{name}")
    own = Golden(want.checkpoint.name)
    k = own.tensors[f"prefill.L{want.info['moe_layers'][0]:02}.experts"].shape[1]
    folder = export(want.checkpoint, "--tokens", "1,24", "--top-k", f"{k},{want.info['top_k']}", *flags)
    first, second = forms_of(folder)
    logits = {form: logits_of(Runner(folder, threads=1, top_k=form), want) for form in (first, second, "")}
    wanted = np.concatenate([want.rows(step, "logits") for step, _, _ in want.steps])
    np.testing.assert_allclose(logits[second], wanted, atol=1e-4 * np.abs(wanted).max())
    assert np.array_equal(logits[first], logits[""])
    assert np.abs(logits[first] - wanted).max() > 1e-2 * np.abs(wanted).max()


def test_rejects_an_unknown_variant(export, golden):
    folder = export(golden("mixtral_a").checkpoint, "--tokens", "1,24", "--top-k", "1,2")
    with pytest.raises(ValueError, match="the export has no top-k variant 3; it has 2, 1"):
        Runner(folder, threads=1, top_k="3")
    plain = export(golden("mixtral_a").checkpoint, "--tokens", "1,24")
    with pytest.raises(ValueError, match="none: export with --top-k"):
        Runner(plain, threads=1, top_k="1")


def first_routing(runner, tokens):
    """Returns the routing weights of the first router, [tokens, experts]."""
    runner.reset()
    edges = {"embed": runner.embedding[tokens]}
    for step in runner.manifest["schedule"]:
        runner.run_step(step, edges, len(tokens))
        if runner.shards[step["shard"]]["kind"] == "router":
            return edges[next(b["edge"] for b in step["outputs"] if b["port"] == "routing_weights")]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_limited_experts_process_their_first_tokens(dtype, export, golden):
    flags = (golden("mixtral_a").checkpoint, "--tokens", "24", "--routing", "host", "--dtype", dtype)
    tokens = [token for _, _, ids in golden("mixtral_a").steps for token in ids][:20]  # and 4 tokens of padding
    wanted = first_routing(Runner(export(*flags), threads=1), tokens).copy()
    capped = first_routing(Runner(export(*flags, "--capacity", "0.8"), threads=1), tokens)
    most = math.ceil(0.8 * 24 * 2 / 5)
    for expert in range(wanted.shape[1]):
        wanted[np.flatnonzero(wanted[:, expert])[most:], expert] = 0
    assert np.array_equal(capped, wanted)
    assert (capped > 0).sum() < 2 * len(tokens), "no choice was dropped, so the test proves nothing"
