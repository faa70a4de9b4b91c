"""A killed prepack leaves nothing that a run accepts as a finished file, and an older file is preserved.

    MOEC_KILLS=100 .venv/bin/pytest tests/peers/test_prepack.py
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import find_binary, take_signals

KILLS = int(os.environ.get("MOEC_KILLS", "10"))
EXPERTS, LAYERS, FF, HIDDEN = 16, 4, 512, 256


@pytest.fixture(scope="module")
def packable(moec, tmp_path_factory):
    """An export with 100 MB of experts, and a profile that selects all of them."""
    folder = tmp_path_factory.mktemp("packable")
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 256,
              "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 32, "intermediate_size": FF, "moe_intermediate_size": FF, "num_experts": EXPERTS,
              "num_experts_per_tok": 2, "norm_topk_prob": True, "hidden_act": "silu", "rms_norm_eps": 1e-6,
              "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": False,
              "decoder_sparse_step": 1, "mlp_only_layers": []}
    (folder / "config.json").write_text(json.dumps(config))
    moec("export", folder / "config.json", "--out", folder / "out", "--seeded-weights", 3, "--tokens", 1, "--context", 64,
         "--experts-per-shard", 8, "--quiet")
    layers = [{"layer": n, "tokens": sum(range(1, EXPERTS + 1)) // 2, "selections": list(range(1, EXPERTS + 1))}
              for n in range(LAYERS)]
    profile = {"format": "moec.expert_profile", "version": 1, "model": "qwen3_moe", "checkpoint": "", "source": "export",
               "text": "", "experts": EXPERTS, "top_k": 2, "categories": [], "layers": layers}
    (folder / "profile.json").write_text(json.dumps(profile))
    return folder


def prepack_command(packable, file, capacity=EXPERTS):
    return [str(find_binary()), "prepack", str(packable / "out"), "--profile", str(packable / "profile.json"),
            "--capacity", str(capacity), "--out", str(file), "--force"]


def begins_with(packable, file):
    """Runs the export with the file and returns the completed process."""
    command = [str(find_binary()), "run", str(packable / "out"), "--prompt-tokens", "1,2", "--max-tokens", "1", "--json",
               "--prepacked", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def kill_prepack(command, seconds):
    """Returns whether the prepack was killed before it finished."""
    prepack = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    prepack.kill()
    return prepack.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole_pack(packable):
    file = packable / "whole.pack"
    began = time.monotonic()
    subprocess.run(prepack_command(packable, file), check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    assert json.loads(begins_with(packable, file).stdout)["experts"]["start"]["experts"] == EXPERTS * LAYERS
    return file.read_bytes(), seconds


def test_killed_prepacks_leave_no_file(packable, whole_pack, tmp_path):
    whole, seconds = whole_pack
    chance = random.Random(8)
    killed = halves = attempts = 0
    while killed < KILLS:
        attempts += 1
        assert attempts < 6 * KILLS, "prepacks finish before they can be killed"
        folder = tmp_path / str(attempts)
        folder.mkdir()
        file = folder / "warm.pack"
        killed += kill_prepack(prepack_command(packable, file), chance.uniform(0, seconds))
        for left in folder.iterdir():
            if left == file:
                assert file.read_bytes() == whole  # the file was renamed before the kill
                continue
            halves += 1
            assert left.name.startswith("warm.pack.") and left.name.endswith(".part")
            if left.read_bytes() != whole:  # the whole file may already have been written
                refused = begins_with(packable, left)
                assert refused.returncode == 2 and "prepacked." in refused.stdout
        subprocess.run(prepack_command(packable, file), check=True, stdout=subprocess.DEVNULL)
        assert file.read_bytes() == whole
        assert list(folder.iterdir()) == [file], "leftovers of the killed prepack must be removed"
        shutil.rmtree(folder)
    print(f"{killed} prepacks were killed, {halves} left a part of a file behind")


def stop_prepack(command, folder, number):
    """Sends the signal while the file is being written. Returns the exit code and the report."""
    prepack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=take_signals)
    while prepack.poll() is None and not list(folder.glob("*.part")):
        time.sleep(0.001)
    prepack.send_signal(number)
    said, _ = prepack.communicate(timeout=60)
    return prepack.returncode, said


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM"])
def test_signals_stop_a_prepack(packable, tmp_path, name):
    number = getattr(signal, name)
    command = [*prepack_command(packable, tmp_path / "warm.pack"), "--json"]
    for _ in range(20):
        code, said = stop_prepack(command, tmp_path, number)
        if code != 0:
            break  # otherwise, the file was complete before the signal arrived
    assert code == 128 + number
    assert json.loads(said)["diagnostics"][0]["code"] == "prepack.interrupted"
    assert not [left for left in tmp_path.iterdir() if left.name != "warm.pack"]


def test_killed_prepack_keeps_the_old_file(packable, whole_pack, tmp_path):
    _, seconds = whole_pack
    chance = random.Random(9)
    file = tmp_path / "warm.pack"
    subprocess.run(prepack_command(packable, file, capacity=2), check=True, stdout=subprocess.DEVNULL)
    older = file.read_bytes()
    for _ in range(KILLS):
        kill_prepack(prepack_command(packable, file), chance.uniform(0, 0.6 * seconds))
        if file.read_bytes() != older:
            return  # the prepack succeeded despite the kill
        assert begins_with(packable, file).returncode == 0
