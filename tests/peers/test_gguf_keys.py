"""Sets each key that the gguf package knows in a file of each architecture: moec rejects the key, or computes the
same results as llama.cpp.
"""

import functools
import json
import re
import subprocess

import gguf
import numpy as np
import pytest

import llama_cpp
from conftest import find_binary
from gguf_cases import REPRESENTABLE, VARIANTS
from gguf_models import Model, read_model, write_model
from goldens import REPO
from run_with_onnxruntime import Runner

MOST = 1e-5  # difference of logits, relative to the largest logit
MOST_WITH_TABLE = 5e-3  # llama.cpp looks GELU up in a table of f16 numbers
TOKENS = [3, 17, 5, 60, 2, 9, 11, 42, 7, 1, 33, 20]
# Unusual values with the types that llama.cpp expects. All other keys are set to NUMBER.
NUMBER = 3.0
VALUES = {
    "attention.causal": True, "attention.head_count_kv": 2, "attention.key_length_swa": 4,
    "attention.layer_norm_epsilon": 0.5, "attention.sliding_window": 8192, "attention.temperature_length": 3,
    "attention.temperature_scale": 0.0, "attention.value_length_swa": 4, "embedding_length_out": 7,
    "expert_count": 0, "expert_feed_forward_length": 3, "expert_gating_func": 1, "expert_group_count": 0,
    "expert_group_used_count": 3,
    "feed_forward_length": 3, "full_attention_interval": 2, "n_deepstack_layers": 1, "rope.freq_base": 777.0,
    "expert_shared_count": 3, "expert_used_count": 0, "expert_weights_norm": True, "expert_weights_scale": 1.7,
    "leading_dense_block_count": 0, "nextn_predict_layers": 0, "pooling_type": 2, "rope.dimension_count_swa": 4,
    "rope.dimension_sections": [1, 2, 1, 0], "rope.freq_base_swa": 77.0, "rope.scale_linear": 5.0,
    "rope.scaling.alpha": 3.0, "rope.scaling.attn_factor": 1.3, "rope.scaling.factor": 3.0,
    "rope.scaling.finetuned": True, "rope.scaling.original_context_length": 32, "rope.scaling.type": "linear",
    "rope.scaling.yarn_attn_factor": 3.0, "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 2.0,
    "rope.scaling.yarn_ext_factor": 0.5, "rope.scaling.yarn_log_multiplier": 0.3, "tensor_data_layout": "odd",
}


def known_keys():
    """The keys of architectures without "ARCH."."""
    classes = [value for value in vars(gguf.constants.Keys).values() if isinstance(value, type)]
    named = {value for each in classes for value in vars(each).values() if isinstance(value, str)}
    prefix = "{arch}."
    return sorted({name.removeprefix(prefix) for name in named if name.startswith(prefix)} | VALUES.keys())


def cases():
    """Maps each architecture to its first case."""
    families = {}
    for case in [*REPRESENTABLE, *sorted(VARIANTS)]:
        info = json.loads((REPO / "tests/golden" / case / "golden.json").read_text())
        families.setdefault(info["family"], case)
    return sorted(families.values())


def other_than(value):
    """Returns a different value of the same type for a key of the model."""
    if isinstance(value, bool):
        return not value
    return {int: lambda: value + 1, float: lambda: value * 1.5 + 0.25}.get(type(value), lambda: "linear")()


@pytest.fixture(scope="module")
def changed(gguf_checkpoint, tmp_path_factory):
    """changed(case, **keys) → the file of the case with these keys, and all keys of its model without "ARCH."."""
    folder = tmp_path_factory.mktemp("keys")
    models = functools.cache(lambda case: read_model(gguf_checkpoint(case)))

    def write(case, keys):
        model = models(case)
        named = {f"{model.arch}.{key}": value for key, value in keys.items()}
        [file] = write_model(Model(model.arch, model.keys | named, model.tensors), folder / f"{case}.gguf")
        return file, {key.removeprefix(f"{model.arch}."): value for key, value in model.keys.items()}

    return write


def plan(file):
    planned = subprocess.run([find_binary(), "plan", file, "--json"], capture_output=True, text=True)
    assert planned.returncode in (0, 2), planned.stderr
    return planned


def is_refused(file):
    return plan(file).returncode == 2


def known_to_moec(keys, write):
    """The keys that moec does not refuse as unknown. Asks several times, because a report lists only the first ones."""
    unknown = [""]
    while unknown:
        report = plan(write({key: VALUES.get(key, NUMBER) for key in keys})).stdout
        unknown = re.findall(r'unknown key \\"[^."]+\.([^"]+?)\\"', report)
        keys = [key for key in keys if key not in unknown]
    return keys


def assert_same(file, wanted, moec, tmp_path, what):
    out = tmp_path / "out"
    moec("export", file, "--out", out, "--tokens", len(TOKENS), "--force", "--quiet")
    got = Runner(out, threads=1).feed(TOKENS)
    most = MOST_WITH_TABLE if "gemma4" in str(file) else MOST
    assert np.abs(got - wanted).max() <= most * np.abs(wanted).max(), what


@pytest.mark.parametrize("case", cases())
def test_keys_absent_from_the_model_match_llama_cpp(case, changed, moec, tmp_path):
    """Sets all accepted keys in one file."""
    _, own = changed(case, {})
    lacked = [key for key in known_keys() if key not in own]
    known = known_to_moec(lacked, lambda keys: changed(case, keys)[0])
    taken = [key for key in known if not is_refused(changed(case, {key: VALUES.get(key, NUMBER)})[0])]
    assert set(taken) <= VALUES.keys()
    assert len(taken) > 12 and len(lacked) - len(taken) > 40
    file, _ = changed(case, {key: VALUES[key] for key in taken})
    assert_same(file, llama_cpp.logits(file, TOKENS), moec, tmp_path, taken)


@pytest.mark.parametrize("case", cases())
def test_changed_model_keys_match_llama_cpp(case, changed, moec, tmp_path):
    """Changes one key at a time. Files that llama.cpp does not load are not compared."""
    _, own = changed(case, {})
    compared = 0
    for key, value in own.items():
        if isinstance(value, list) or not key.startswith(("attention.", "expert", "rope.", "leading", "interleave")) \
                and not key.endswith("scale"):
            continue
        file, _ = changed(case, {key: other_than(value)})
        if is_refused(file):
            continue
        try:
            wanted = llama_cpp.logits(file, TOKENS)
        except llama_cpp.LlamaError:
            continue
        compared += 1
        assert_same(file, wanted, moec, tmp_path, key)
    assert compared >= 2
