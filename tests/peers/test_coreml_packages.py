"""coremltools loads each kind of emitted package, infers the type of each operation again, and reads the
checkpoint's weights from the package."""

import collections
import copy
import functools
import shutil

import numpy as np
import pytest

from coreml_packages import MIL_OPS, Folder, Package, Program, port_of
from goldens import WRITERS, in_forms
from safetensors_files import read_checkpoint
from test_onnx_files import embedding_of, fused_tensors, regrouped_tensors, same_values

WIDTHS = ("--target", "ane", "--tokens", "1,4", "--context", "32")
EXPORTS = {
    "state": (*WIDTHS, "--kv", "state"),
    "separate": (*WIDTHS, "--widths", "separate"),
    "io": (*WIDTHS, "--kv", "io"),
    "bank": (*WIDTHS, "--experts", "bank", "--head-slices", "3"),
    "iterate": (*WIDTHS, "--routing", "iterate"),
    "full_softmax": (*WIDTHS, "--routing", "full_softmax"),
    "host": (*WIDTHS, "--routing", "host", "--experts-per-shard", "2"),
    "bc1s": (*WIDTHS, "--layout", "bc1s"),
    "functions": (*WIDTHS, "--widths", "functions"),
    "experts": (*WIDTHS, "--routing", "host", "--experts-per-shard", "1", "--widths", "functions"),
    "range": (*WIDTHS, "--widths", "range"),
    "range_io": (*WIDTHS, "--widths", "range", "--kv", "io"),
}
CHOICE_BIASES = ("e_score_correction_bias", "balancing_biases")

# The graphs for one token and for several tokens differ in structure, which a range of widths cannot represent
# (width.structure).
OTHER_STRUCTURE = ("qwen3_next", "qwen3_5_moe", "granitemoehybrid", "nemotron_h", "kimi_linear", "bailing_hybrid", "lara_mini")
FORMS = [(case, name) for case, name in in_forms(EXPORTS)
         if not (name.startswith("range") and case.startswith(OTHER_STRUCTURE))]


@pytest.fixture(scope="module")
def folder(export, golden):
    @functools.lru_cache(maxsize=2)
    def load(case, name):
        checkpoint = golden(case).checkpoint
        flags = EXPORTS[name]
        if "--kv" in flags and case not in WRITERS:  # models without a cache do not accept --kv
            at = flags.index("--kv")
            flags = flags[:at] + flags[at + 2:]
        return Folder(export(checkpoint, *flags), checkpoint)

    return load


@pytest.fixture(scope="module", params=FORMS, ids="-".join)
def exported(request, folder):
    """Each case and form. pytest runs the tests of one in succession, because the fixture has the module's scope."""
    return folder(*request.param)


def layer_of(tensor):
    """Returns the layer of a checkpoint's tensor, or -1 for tensors of the whole model."""
    _, _, behind = tensor.partition(".layers.")
    return int(behind.split(".")[0]) if behind else -1


def test_inferred_types_match_every_operation(exported):
    """The numbers of operations also equal those in the manifest, which counts the narrowest width."""
    for package in exported.packages:
        spec, functions = package.program.spec, package.program.arrays
        stated = collections.Counter(operation.type for operation in package.operations(spec))
        consts = stated.pop("const")
        copies = stated.pop("identity", 0)
        assert consts > 0 and copies <= len(package.width["outputs"])
        assert set(functions) == set(spec.mlProgram.functions)
        if package.width["tokens"] != 1:
            continue
        counted = collections.Counter()
        for each in package.shard["ops"]:
            if each["op"] not in ("weight", "constant"):
                counted[MIL_OPS.get(each["op"], each["op"])] += each["count"]
        assert stated == counted, package.program.path


def test_descriptions_match_the_manifest(exported):
    for package in exported.packages:
        spec = package.program.spec
        described = package.described(spec)
        for ports, features in ((package.width["inputs"], described.input),
                                (package.width["outputs"], described.output),
                                (package.shard["states"], described.state)):
            declared = {port["name"]: (port["dtype"], port["dims"]) for port in ports}
            assert list(declared) == [feature.name for feature in features]
            for feature in features:
                dtype, dims = declared[feature.name]
                assert port_of(feature)[1] == dtype
                assert fits(feature, dims, package.width["tokens"]), (package.program.path, feature.name)
        wanted = exported.functions[package.program.path] - {""}
        assert {each.name for each in spec.description.functions} == wanted
        assert set(spec.mlProgram.functions) == (wanted or {"main"})
        default = {True: "router_t1", False: "t1"}[package.function.startswith(("router", "expert", "shared"))]
        assert spec.description.defaultFunctionName == (default if wanted else "")


@pytest.mark.parametrize("case", ["tinymoe", "deepseek_v3_a"])
def test_layer_is_a_package_of_experts(case, folder):
    exported = folder(case, "experts")
    functions = {path.name: names for path, names in exported.functions.items() if path.parent.name == "moe"}
    experts = max(shard["first_expert"] + shard["experts"] for shard in exported.manifest["shards"])
    wanted = {f"{part}_t{tokens}" for part in ("router", *(f"expert_{e}" for e in range(experts))) for tokens in (1, 4)}
    assert functions and all(names == wanted for names in functions.values())


def fits(feature, dims, tokens):
    """Returns whether the described shape equals or includes `dims`; ranges cover 1 to 4 tokens."""
    array = feature.type.multiArrayType
    if array.WhichOneof("ShapeFlexibility") == "shapeRange":
        ranges = [(size.lowerBound, size.upperBound) for size in array.shapeRange.sizeRanges]
        edge = {1: 0, 4: 1}[tokens]
        return [pair[edge] for pair in ranges] == dims
    return port_of(feature)[2] in (dims, [])  # outputs of a range package may have open sizes


@pytest.mark.parametrize("name", ["state", "functions", "range"])
def test_states_are_two_caches_per_layer(name, folder):
    for package in folder("tinymoe", name).packages:
        spec = package.program.spec
        states = [port_of(feature) for feature in package.described(spec).state]
        wanted = ["k_state", "v_state"] if package.shard["kind"] == "attention" else []
        assert [state for state, _, _ in states] == wanted
        assert spec.specificationVersion == 9 or name != "functions" and not states


def test_weights_equal_the_checkpoint_tensors(exported):
    """The f16 weights are the tensors rounded once, bit for bit. A package names weights by their role, not by the
    checkpoint's tensor, so they are compared by shape and bytes per layer."""
    tensors = read_checkpoint(exported.checkpoint)
    seen = collections.defaultdict(set)
    for package in exported.packages:
        for label, array in package.weights().items():
            assert array.dtype == np.float16, label
            seen[package.shard["layer"]].add((array.shape[:2], array.tobytes()))
    left_out = {entry["tensor"] for entry in exported.manifest["ignored"]}
    left_out |= regrouped_tensors(tensors, exported.manifest["model"]["family"])
    if exported.manifest["build"]["experts"] == "bank":  # this form also divides the head
        left_out |= {tensor for tensor in tensors if ".experts." in tensor or "lm_head" in tensor}
    missing = {tensor for tensor, values in tensors.items()
               if values.ndim == 2 and tensor not in left_out
               and (values.shape, values.astype(np.float16).tobytes()) not in seen[layer_of(tensor)]}
    # Correction biases are split into two f16 halves around their median.
    assert {tensor for tensor in missing if not tensor.endswith("correction_bias")} <= {embedding_of(tensors)}


@pytest.mark.parametrize("case", ["deepseek_v3_a", "ernie4_5_moe_b", "glm4_moe_b", "minimax_m2_a", "zaya_a"])
def test_correction_bias_is_split_around_its_median(case, folder):
    exported = folder(case, "state")
    halves = {}
    for package in exported.packages:
        for label, array in package.weights().items():
            if label.endswith(("router.choice_bias", "router.choice_bias_low")):
                halves[package.shard["layer"], label.endswith("_low")] = array.ravel()
    biases = {layer_of(tensor): values.astype(np.float32).ravel()
              for tensor, values in read_checkpoint(exported.checkpoint).items() if tensor.endswith(CHOICE_BIASES)}
    assert set(halves) == {(layer, low) for layer in biases for low in (False, True)} and biases
    for layer, bias in biases.items():
        centred = bias - np.sort(bias)[(len(bias) - 1) // 2]
        high = centred.astype(np.float16)
        np.testing.assert_array_equal(halves[layer, False], high)
        np.testing.assert_array_equal(halves[layer, True], (centred - high).astype(np.float16))


@pytest.mark.parametrize("case", ["mixtral_b", "qwen3_moe_b"])
def test_slices_fused_experts(case, folder):
    exported = folder(case, "state")
    tensors = read_checkpoint(exported.checkpoint)
    by_layer = {(int(tensor.split(".")[2]), tensor.split(".")[-1]): tensors[tensor]
                for tensor in fused_tensors(tensors)}
    seen = collections.Counter()
    for package in exported.packages:
        if package.shard["kind"] != "moe":
            continue
        layer = package.shard["layer"]
        for label, array in package.weights().items():
            if not label.startswith("experts."):
                continue
            _, expert, role = label.split(".")[:3]
            gate, up = np.split(by_layer[layer, "gate_up_proj"][int(expert)], 2)
            down = by_layer[layer, "down_proj"][int(expert)]
            assert same_values(array, {"gate": gate, "up": up, "down": down}[role]), label
            seen[layer, int(expert), role] += 1
    experts = len(next(iter(by_layer.values())))
    layers = {layer for layer, _ in by_layer}
    assert seen == {(layer, expert, role): 2 for layer in layers for expert in range(experts)
                    for role in ("gate", "up", "down")}  # once per token width


# ---- The check can fail ------------------------------------------------------------------------


def first(package, spec, operation_type):
    return next(each for each in package.operations(spec) if each.type == operation_type)


def test_rejects_a_wrong_type(folder):
    package = folder("tinymoe", "state").packages[0]
    spec = copy.deepcopy(package.program.spec)
    package.program.typed(spec)
    stated = first(package, spec, "mul").outputs[0].type.tensorType
    stated.dimensions[1].constant.size += 1
    with pytest.raises(AssertionError):
        package.program.typed(spec)


def test_rejects_a_missing_argument(folder):
    package = folder("tinymoe", "state").packages[0]
    spec = copy.deepcopy(package.program.spec)
    del first(package, spec, "conv").inputs["weight"]
    with pytest.raises((ValueError, TypeError)):
        package.program.typed(spec)


def test_detects_a_damaged_weight(folder, tmp_path):
    package = folder("tinymoe", "state").packages[0]
    program = package.program
    shutil.copytree(program.path, tmp_path / "damaged.mlpackage")
    damaged = Program(tmp_path / "damaged.mlpackage" / program.model.relative_to(program.path))
    weights = damaged.model.parent / "weights/weight.bin"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    before, after = package.weights(), Package(package.shard, package.width, damaged).weights()
    different = [label for label in before if before[label].tobytes() != after[label].tobytes()]
    assert len(different) == 1
