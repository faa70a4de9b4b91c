"""onnxruntime computes mixers as accurately as numpy, even for weights that are several times larger than those of
the goldens."""

import json
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from onnx import load
from onnx.reference import ReferenceEvaluator

from conftest import find_binary
from goldens import Golden
from safetensors_files import read_checkpoint, write_tensors

TOKENS = 16
FACTOR = 6  # makes the silu results of whole heads small, and these are divided by their norm
LIMIT = 5e-6  # onnxruntime's own Sigmoid has an error of 4.4e-5 to 1.5e-4


def scaled_checkpoint(case, folder):
    """Writes the golden's checkpoint in f32 with its matrices multiplied by FACTOR."""
    checkpoint = Golden(case).checkpoint
    folder.mkdir()
    shutil.copy(checkpoint / "config.json", folder)
    tensors = read_checkpoint(checkpoint)
    scaled = {name: np.float32(values * (FACTOR if values.ndim > 1 else 1)) for name, values in tensors.items()}
    write_tensors(folder / "model.safetensors", scaled)
    return folder


def inputs_of(session, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    for port in session.get_inputs():
        if port.type != "tensor(float)":
            feeds[port.name] = np.zeros(port.shape, np.int32)
        elif port.name == "token_mask":
            feeds[port.name] = np.ones(port.shape, np.float32)
        else:
            feeds[port.name] = rng.standard_normal(port.shape).astype(np.float32)
    return feeds


def worst_token(got, wanted):
    """The largest relative L2 error of a token in [1, channels, tokens, 1]."""
    difference = np.linalg.norm(np.float64(got) - wanted, axis=1)
    return (difference / np.linalg.norm(np.float64(wanted), axis=1)).max()


@pytest.mark.filterwarnings("ignore:overflow")  # exp also overflows to infinity in onnxruntime
@pytest.mark.parametrize("case", ["qwen3_5_moe_a", "qwen3_next_a", "kimi_linear_a"])
def test_mixers_with_scaled_weights_stay_accurate(case, tmp_path):
    checkpoint, out = scaled_checkpoint(case, tmp_path / "model"), tmp_path / "out"
    command = [find_binary(), "export", checkpoint, "--out", out, "--tokens", str(TOKENS), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    mixers = 0
    for index, shard in enumerate(json.loads((out / "manifest.json").read_text())["shards"]):
        path = out / shard["widths"][0]["file"]["path"]
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = inputs_of(session, seed=index)
        if "recurrent_state" not in feeds:
            continue
        mixers += 1
        [got] = session.run(["hidden"], feeds)
        [wanted] = ReferenceEvaluator(load(path)).run(["hidden"], feeds)
        assert worst_token(got, wanted) <= LIMIT, shard["name"]
    assert mixers > 0
