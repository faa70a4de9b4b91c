"""scripts/run_with_coreml.py, with a stand-in for coremltools' MLModel that interprets the packages (mil_model.py).

No command of moec evaluates one shard, so the stand-in computes in numpy: this also checks the packages with a reader
that shares no code with moec. MOEC_COREML_CASES=all runs all golden cases (a minute) instead of a selection.
"""

import inspect
import json
import os
import subprocess
import sys

import coremltools
import numpy as np
import pytest

import goldens
import run_with_coreml
from comparison import compare
from goldens import REPO
from mil_model import MilModel, Rejected
from run_with_coreml import CoremlRunner

ANE = ("--target", "ane", "--tokens", "1,16")
EXPORTS = {
    "auto": ANE,
    "separate": (*ANE, "--widths", "separate"),
    "functions": (*ANE, "--widths", "functions"),
    "range": (*ANE, "--widths", "range"),
    "host": (*ANE, "--routing", "host", "--experts-per-shard", "2"),
    "host_experts": (*ANE, "--routing", "host", "--experts-per-shard", "1", "--widths", "separate"),
    "experts": (*ANE, "--routing", "host", "--experts-per-shard", "1", "--widths", "functions"),
    "io": (*ANE, "--kv", "io"),
    "bc1s": (*ANE, "--layout", "bc1s"),
}
PROMPT, COUNT, FEW = list(b"def f(x):\n    return x"), 60, 16  # two steps of 16 tokens, then steps of one token
SELECTED = ("tinymoe", "bailing_hybrid_a", "deepseek_v3_a", "gemma4_a", "gpt_oss_a", "granitemoehybrid_a", "kimi_linear_a",
            "lfm2_moe_a", "llama4_text_a", "openai_privacy_filter_a", "qwen3_next_a", "tinytagger", "zaya_a")
CASES = goldens.CASES if os.environ.get("MOEC_COREML_CASES") == "all" else SELECTED


@pytest.fixture(scope="module")
def folder(export, golden):
    return lambda name: export(golden("tinymoe").checkpoint, *EXPORTS[name])


@pytest.fixture(scope="module")
def wanted(moec, folder):
    """The tokens of moec run."""
    printed = moec("run", folder("separate"), "--prompt-tokens", ",".join(map(str, PROMPT)), "--max-tokens", COUNT, "--json")
    return json.loads(printed)["tokens"]


def generated(runner, count=COUNT):
    return list(runner.generate(PROMPT, count))


@pytest.mark.parametrize("name", EXPORTS)
def test_generates_tokens_of_moec(name, folder, wanted):
    runner = CoremlRunner(folder(name), load=MilModel)
    assert len(wanted) == COUNT and generated(runner) == wanted
    assert (runner.skipped_steps > 0) == ("--routing" in EXPORTS[name])
    runner.reset()
    assert generated(runner, FEW) == wanted[:FEW]


def test_calls_only_the_chosen_functions(folder):
    """The logits equal those of separate packages, and the runner loads no expert that no token chose."""
    runners = [CoremlRunner(folder(name), load=MilModel) for name in ("host_experts", "experts")]
    tokens = list(b"de")
    separate, functions = ([runner.feed([token]) for token in tokens] for runner in runners)
    np.testing.assert_array_equal(functions, separate)
    assert runners[0].skipped_steps == runners[1].skipped_steps > 0
    called = {function for _, function in runners[1].sessions if function.startswith("expert_")}
    listed = {width["function"] for shard in runners[1].manifest["shards"] for width in shard["widths"]}
    assert called and called < {name for name in listed if name.startswith("expert_") and name.endswith("_t1")}


@pytest.mark.parametrize("case", CASES)
def test_logits_match_goldens(case, export, golden, worst):
    """Models that label tokens have one step, which must fit the width."""
    want = golden(case)
    widths = "1,8" if case in goldens.WRITERS else str(max(len(tokens) for _, _, tokens in want.steps))
    runner = CoremlRunner(export(want.checkpoint, "--target", "ane", "--tokens", widths), load=MilModel)
    got = np.concatenate([runner.feed(tokens) for _, _, tokens in want.steps])
    found = compare(got, np.concatenate([want.rows(name, "logits") for name, _, _ in want.steps]))
    worst["Core ML packages f16, interpreted"].add(found)
    assert found.cosine >= 0.9999


def test_top_k_variant_selects_its_functions(moec, export, golden):
    folder = export(golden("tinymoe").checkpoint, *EXPORTS["functions"], "--top-k", "2,1")
    tokens = {}
    for variant in ("2", "1"):
        printed = moec("run", folder, "--prompt-tokens", ",".join(map(str, PROMPT)), "--max-tokens", FEW, "--top-k", variant,
                       "--json")
        tokens[variant] = json.loads(printed)["tokens"]
        assert generated(CoremlRunner(folder, top_k=variant, load=MilModel), FEW) == tokens[variant]
    assert tokens["1"] != tokens["2"]


# ---- The tests can fail ------------------------------------------------------------------------


class ForgetsStates(CoremlRunner):
    def state_of(self, shard, width):
        return self.session(width).make_state() if shard["states"] else None


class LosesStatesBetweenWidths(CoremlRunner):
    def state_of(self, shard, width):
        place = self.place_of(width)
        if shard["states"] and (shard["name"], place) not in self.device_states:
            self.device_states[shard["name"], place] = self.session(width).make_state()
        return self.device_states.get((shard["name"], place))


class SharesStatesBetweenModels(CoremlRunner):
    def state_of(self, shard, width):
        if shard["states"] and shard["name"] not in self.device_states:
            self.device_states[shard["name"]] = self.session(width).make_state()
        return self.device_states.get(shard["name"])


class BindsOtherRotations(CoremlRunner):
    def input(self, binding, port, edges, count):
        other = {"rope_cos": "rope_sin", "rope_sin": "rope_cos"}
        return super().input({**binding, "source": other.get(binding["source"], binding["source"])}, port, edges, count)


class BindsEarlierEdge(CoremlRunner):
    """Experts read the input of attention instead of its output."""

    def input(self, binding, port, edges, count):
        return super().input({**binding, "edge": binding["edge"].replace("L02.hidden", "L01.moe_out")}, port, edges, count)


class WritesOtherRow(CoremlRunner):
    def write_mask(self, port, count):
        return np.roll(super().write_mask(port, count), 1, axis=2)


class SeesFuture(CoremlRunner):
    def attention_mask(self, port, binding, count):
        return np.zeros(port["dims"], np.float16)


class RunsOtherFunction(CoremlRunner):
    def place_of(self, width):
        path, function = super().place_of(width)
        return path, {"t1": "t16", "t16": "t1"}[function]


class RunsDefaultFunction(CoremlRunner):
    def place_of(self, width):
        return super().place_of(width)[0], ""


class SkipsChosenGroups(CoremlRunner):
    def may_skip(self, step, shard, edges):
        return bool(step["skip_from"]) and shard["first_expert"] == 0


WRONG = {
    ForgetsStates: ("separate", ""),
    LosesStatesBetweenWidths: ("separate", ""),
    SharesStatesBetweenModels: ("separate", "the state belongs to another model"),
    BindsOtherRotations: ("separate", ""),
    BindsEarlierEdge: ("separate", ""),
    WritesOtherRow: ("separate", ""),
    SeesFuture: ("separate", ""),
    RunsOtherFunction: ("functions", r"x: \(1, 128, 16, 1\) float16"),
    RunsDefaultFunction: ("functions", r"x: \(1, 128, 16, 1\) float16"),
    SkipsChosenGroups: ("host", ""),
}


@pytest.mark.parametrize("runner", WRONG, ids=lambda runner: runner.__name__)
def test_wrong_runner_fails(runner, folder, wanted):
    """The stand-in rejects a call, or the tokens differ."""
    name, rejected = WRONG[runner]
    wrong = runner(folder(name), load=MilModel)
    if rejected:
        with pytest.raises(Rejected, match=rejected):
            generated(wrong)
    else:
        assert generated(wrong, FEW) != wanted[:FEW]


# ---- The real interface ------------------------------------------------------------------------


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_stand_in_has_interface_of_coremltools():
    """The names and order of the parameters that the script uses."""
    real = coremltools.models.MLModel
    assert {"compute_units", "function_name"} <= set(parameters(real.__init__)) and parameters(real.__init__)[1] == "model"
    assert parameters(real.predict) == parameters(MilModel.predict) == ["self", "data", "state"]
    assert parameters(real.make_state) == ["self"]
    state = coremltools.models.model.MLState
    assert parameters(state.read_state) == ["self", "name"] and parameters(state.write_state) == ["self", "name", "value"]
    assert {unit.name for unit in coremltools.ComputeUnit} == set(run_with_coreml.UNITS)


def test_loads_functions_and_units_by_name(folder, monkeypatch):
    """The real MLModel opens each package, and rejects the name of a missing function also on Linux."""
    real, loaded = coremltools.models.MLModel, []

    class Recorded(MilModel):
        def __init__(self, model, compute_units, function_name):
            loaded.append((model.rpartition("/")[2], compute_units.name, real(model, function_name=function_name).function_name))
            super().__init__(model, compute_units, function_name or "")

    monkeypatch.setattr(coremltools.models, "MLModel", Recorded)
    for name, package, function in (("separate", "L00.t1.mlpackage", None), ("functions", "L00.mlpackage", "t1")):
        CoremlRunner(folder(name), "CPU_ONLY").feed(PROMPT[:1])
        assert loaded[0] == (package, "CPU_ONLY", function)
        loaded.clear()


def test_refuses_other_systems_and_formats(folder, export, golden):
    if sys.platform != "darwin":
        script = [sys.executable, REPO / "scripts/run_with_coreml.py", folder("separate"), "--prompt", "a"]
        done = subprocess.run(script, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "") and "run this script on a Mac" in done.stderr
    with pytest.raises(ValueError, match="export with --target ane"):
        CoremlRunner(export(golden("tinymoe").checkpoint), load=MilModel)
