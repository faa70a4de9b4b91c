"""onnxruntime runs each emitted shard alone on golden inputs; the results match the golden outputs."""

import shutil
from dataclasses import dataclass

import numpy as np
import pytest

from comparison import Comparison, compare
from goldens import CASES, in_forms
from run_with_onnxruntime import Runner

WIDTHS = ("--tokens", "1,16")
F32_EXPORTS = {
    "conv": WIDTHS,
    "matmul_bank_iterate": (*WIDTHS, "--form", "matmul", "--experts", "bank",
                            "--routing", "iterate", "--attention", "per_head"),
    "host_groups": (*WIDTHS, "--routing", "host", "--experts-per-shard", "2", "--head-slices", "3"),
    "topk_bank": (*WIDTHS, "--routing", "topk", "--experts", "bank"),
    "whole_layers": (*WIDTHS, "--layers-per-shard", "2"),
    "bc1s": (*WIDTHS, "--layout", "bc1s"),
}
F16_EXPORTS = {
    "conv": (*WIDTHS, "--dtype", "f16"),
    "matmul_bank": (*WIDTHS, "--dtype", "f16", "--form", "matmul", "--experts", "bank"),
}


@dataclass(frozen=True)
class Limits:
    cosine: float
    relative_l2: float

    def broken_by(self, figures):
        return not (figures.cosine >= self.cosine and figures.relative_l2 <= self.relative_l2)


F32_LIMITS = Limits(cosine=0.999999, relative_l2=1e-4)
F16_LIMITS = Limits(cosine=0.9999, relative_l2=5e-3)


@dataclass
class Note:
    """The error of one shard output in one golden step."""

    shard: str
    step: str
    output: str
    figures: Comparison


class ShardCheck:
    """Runs the schedule on every golden step; each run of a shard reads only golden values. Among the expert groups
    of a layer, only the first reads golden inputs, because the golden contains only the sum after the last one."""

    def __init__(self, runner, golden):
        self.runner, self.golden = runner, golden
        self.notes = []
        runner.skip_idle_groups = False
        runner.sessions.clear()  # so that it lists only the files that this check loads
        for step in golden.steps:
            self.run_step(*step)
        runner.skip_idle_groups = True

    def run_step(self, step, position, tokens):
        most = self.runner.manifest["build"]["tokens"][-1]
        for begin in range(0, len(tokens), most):
            chunk = slice(begin, min(begin + most, len(tokens)))
            self.fill_caches(position + begin)
            edges = {"embed": self.golden.rows(step, "embed")[chunk]}
            for entry in self.runner.manifest["schedule"]:
                logits = self.runner.run_step(entry, edges, chunk.stop - chunk.start)
                for binding in entry["outputs"]:
                    self.check_output(entry, binding, step, chunk, edges, logits)

    def fill_caches(self, position):
        """Puts the golden rows before `position` into the caches and drops what a step stored itself. Layers
        without attention keep their own history and state, which are computed only from golden inputs."""
        self.runner.position = position
        for (layer, kind), cache in self.runner.caches.items():
            if not cache.size:
                continue
            cache[:] = 0
            cache[0, :, :position] = self.golden.cache(layer, kind, cache.shape[1])[:, :position]
        for layer, history in self.runner.histories.items():
            if not self.runner.caches[layer, "k"].size:
                continue
            known = min(len(history), position)
            history[:] = 0
            if known > 0:
                history[-known:] = self.golden.history(layer)[position - known : position]

    def check_output(self, entry, binding, step, chunk, edges, logits):
        shard, sink = self.runner.shards[entry["shard"]], binding["sink"]
        if sink == "logits":
            columns = slice(shard["vocab_begin"], shard["vocab_begin"] + shard["vocab_size"])
            got, wanted = logits, self.golden.rows(step, "logits")[chunk, columns]
        elif sink in ("k_rows", "v_rows"):
            key, position = (binding["layer"], sink[0]), self.runner.position
            rows = slice(position, position + chunk.stop - chunk.start)
            got = self.runner.caches[key][0, :, rows]
            wanted = self.golden.cache(*key, len(got))[:, rows]
        elif sink == "recurrent_state" or (sink == "history_rows" and not self.runner.caches[binding["layer"], "k"].size):
            return
        elif sink == "history_rows":
            got = self.runner.histories[binding["layer"]]
            position = self.runner.position + chunk.stop - chunk.start
            got = got[-min(len(got), position):]
            wanted = self.golden.history(binding["layer"])[position - len(got) : position]
        elif self.is_partial_sum(entry):
            return
        else:
            got = edges[binding["edge"]]
            wanted = edges[binding["edge"]] = self.wanted_edge(shard, binding, step)[chunk]
        if binding["port"] == "routing_weights" and not wanted.any():  # every token selected the null slot
            assert not got.any()
            return
        self.notes.append(Note(shard["name"], step, binding["port"], compare(got, wanted)))

    def is_partial_sum(self, entry):
        schedule = self.runner.manifest["schedule"]
        kind, following = (self.runner.shards[step["shard"]]["kind"]
                           for step in (entry, schedule[schedule.index(entry) + 1]))
        return kind == "experts" and following in ("experts", "shared")  # gemma4 ends the sum in the shared expert

    def wanted_edge(self, shard, binding, step):
        if binding["port"] == "routing_weights":
            experts = shard["routing"]["experts"]
            return self.golden.routing_weights(step, shard["layer"], experts)
        what = {"hidden": "attn_out", "moe_out": "ffn_out"}.get(binding["port"], binding["port"])
        return self.golden.rows(step, what, shard["layer"] + shard["layers"] - 1)

    def far(self, limits):
        return [note for note in self.notes if limits.broken_by(note.figures)]


def check(runner, golden, worst, dtype, limits):
    shards = ShardCheck(runner, golden)
    for note in shards.notes:
        worst[f"{dtype} {note.output}"].add(note.figures)
    assert shards.far(limits) == []
    widths = runner.manifest["build"]["tokens"]
    used = {next(width for width in widths if width >= min(len(tokens), widths[-1]))
            for _, _, tokens in golden.steps}
    files = {width["file"]["path"] for shard in runner.shards.values() for width in shard["widths"]
             if width["tokens"] in used}
    assert set(runner.sessions) == files
    unseen = set(runner.shards) - {note.shard for note in shards.notes}
    assert all(runner.shards[name]["kind"] == "experts" for name in unseen)


@pytest.mark.parametrize("case,name", in_forms(F32_EXPORTS))
def test_f32_shards_match_the_golden(case, name, runner, golden, worst):
    check(runner(case, *F32_EXPORTS[name]), golden(case), worst, "f32", F32_LIMITS)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("deepseek")])
def test_expanded_latent_attention_matches_the_golden(case, runner, golden, worst):
    check(runner(case, *WIDTHS, "--mla", "expanded"), golden(case), worst, "f32 expanded", F32_LIMITS)


@pytest.mark.parametrize("case,name", in_forms(F16_EXPORTS))
def test_f16_shards_match_the_golden(case, name, runner, golden, worst):
    check(runner(case, *F16_EXPORTS[name]), golden(case), worst, "f16", F16_LIMITS)


def test_inexact_routing_affects_only_moe_shards(runner, golden):
    flags = (*WIDTHS, "--routing", "full_softmax")
    far = ShardCheck(runner("tinymoe", *flags), golden("tinymoe")).far(F32_LIMITS)
    assert {note.shard for note in far} == {f"L{layer:02}.moe" for layer in range(4)}


def test_changed_weight_affects_only_its_shard(export, golden, tmp_path):
    want = golden("mixtral_a")
    folder = shutil.copytree(export(want.checkpoint, *WIDTHS), tmp_path / "out")
    weights = np.memmap(folder / "moe/L01.data", np.float32, "r+")
    weights[0] += 1  # a weight of the norm before the router
    weights.flush()
    far = ShardCheck(Runner(folder, threads=1), want).far(F32_LIMITS)
    assert {note.shard for note in far} == {"L01.moe"}


def router_input(golden, step, port, layer):
    """The stream that a router reads: after attention, or in a parallel block the layer's input."""
    if port == "hidden":
        return golden.rows(step, "attn_out", layer)
    return golden.rows(step, "embed") if layer == 0 else golden.rows(step, "ffn_out", layer - 1)


@pytest.mark.parametrize("case", CASES)
def test_routers_select_the_golden_experts(case, runner, golden):
    running, want = runner(case, *F32_EXPORTS["host_groups"]), golden(case)
    for entry in running.manifest["schedule"]:
        shard = running.shards[entry["shard"]]
        if shard["kind"] != "router":
            continue
        for step, _, _ in want.steps:
            hidden = router_input(want, step, entry["inputs"][0]["port"], shard["layer"])
            for begin in range(0, len(hidden), 16):
                edges = {entry["inputs"][0]["edge"]: hidden[begin : begin + 16]}
                for binding in entry["inputs"][1:]:  # the state that a router passes to the router of the next layer
                    earlier = want.rows(step, "router_state", shard["layer"] - 1)
                    edges[binding["edge"]] = earlier[begin : begin + 16]
                running.run_step(entry, edges, len(hidden[begin : begin + 16]))
                experts = want.rows(step, "experts", shard["layer"])[begin : begin + 16]
                for weights, slots in zip(edges[entry["outputs"][0]["edge"]], experts):
                    real = np.sort(slots[slots < len(weights)])
                    np.testing.assert_array_equal(np.flatnonzero(weights), real)


@pytest.mark.parametrize("case", CASES)
def test_moe_layers_match_the_golden(case, runner, golden):
    shards = runner(case, *WIDTHS).manifest["shards"]
    layers = [shard["layer"] for shard in shards if shard["kind"] == "moe"]
    assert layers == golden(case).info["moe_layers"]
