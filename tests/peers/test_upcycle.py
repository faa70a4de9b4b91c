"""The checkpoints that moec upcycle writes equal those that transformers loaded when the goldens were made
(tests/golden/upcycled): the bytes are equal, and exports match transformers' logits in onnxruntime.
scripts/make_upcycle_golden.py makes the goldens.

A checkpoint whose writing was killed does not exist afterwards, and one that is too large for the disk is rejected."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import find_binary, take_signals
from gguf_models import write_gguf
from goldens import REPO
from run_with_onnxruntime import Runner
from safetensors_files import read_tensors
from test_memory import write_sparse

FOLDER = REPO / "tests/golden/upcycled"
GOLDEN = json.loads((FOLDER / "cases.json").read_text())
CASES = {case["name"]: case for case in GOLDEN["cases"]}
EXACT = 1e-5


def source_of(case):
    return REPO / "tests/golden" / case["source"]


def upcycle(moec, case, out):
    flags = [word.replace("SOURCES/", f"{REPO}/tests/golden/") for word in case["flags"]]
    return json.loads(moec("upcycle", source_of(case), "--out", out, "--json", *flags))


@pytest.mark.parametrize("name", CASES)
def test_bytes_equal_those_loaded_by_transformers(name, moec, tmp_path):
    case = CASES[name]
    report = upcycle(moec, case, tmp_path / "out")
    digests = {file["path"]: file["xxh3"] for file in report["files"] if file["path"] != "config.json"}
    assert digests == case["digests"]
    assert report["exactness"]["class"] == case["exactness"]
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["architectures"] == [case["class"]]


@pytest.mark.parametrize("name", CASES)
def test_export_matches_the_logits_of_transformers(name, moec, tmp_path):
    case = CASES[name]
    upcycle(moec, case, tmp_path / "out")
    moec("export", tmp_path / "out", "--out", tmp_path / "export", "--quiet", "--tokens", len(GOLDEN["tokens"]))
    moec("check", tmp_path / "export")
    wanted = read_tensors(FOLDER / f"{name}.safetensors")["logits"]
    logits = Runner(tmp_path / "export", threads=1).feed(GOLDEN["tokens"])
    assert np.abs(logits - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("source, flags", [
    ("llama_c", ("--granularity", 2, "--experts", 8, "--top-k", 4, "--router", "virtual:1")),
    ("llama_c", ("--granularity", 4, "--experts", 8, "--scale", "sqrt-up-down")),
    ("mixtral_c", ("--from-moe", "--multiply", 2)),
])
def test_exact_gguf_file_matches_the_sources_logits(source, flags, moec, export, tmp_path):
    tokens = GOLDEN["tokens"]
    folder = REPO / "tests/golden" / source
    report = json.loads(moec("upcycle", folder, "--out", tmp_path / "moe", "--dtype", "f32", "--json", *flags))
    assert report["exactness"]["class"] == "exact"
    moec("export", tmp_path / "moe", "--target", "gguf", "--dtype", "f32", "--tokenizer", "none", "--out",
         tmp_path / "gguf", "--quiet")
    width = ("--tokens", len(tokens))
    moec("export", next((tmp_path / "gguf").glob("*.gguf")), "--out", tmp_path / "export", "--quiet", *width)
    wanted = Runner(export(folder, *width), threads=1).feed(tokens)
    logits = Runner(tmp_path / "export", threads=1).feed(tokens)
    assert np.abs(logits - wanted).max() < EXACT * np.abs(wanted).max()


@pytest.mark.parametrize("stored", ["F32", "Q4_1"])
def test_accepts_a_gguf_file_as_dense_model(stored, moec, export, tmp_path):
    """The weights equal the decoded values of the file, with the names of a checkpoint and a tokenizer."""
    tokens = GOLDEN["tokens"]
    [file] = write_gguf(REPO / "tests/golden/llama_c", tmp_path / "dense.gguf", stored)
    report = json.loads(moec("upcycle", file, "--out", tmp_path / "moe", "--experts", 4, "--verify", "--json"))
    assert report["exactness"]["class"] == "exact" and report["comparison"]["max_relative_error"] < EXACT
    width = ("--tokens", len(tokens))
    wanted = Runner(export(file, *width), threads=1).feed(tokens)
    logits = Runner(export(tmp_path / "moe", *width), threads=1).feed(tokens)
    assert np.abs(logits - wanted).max() < EXACT * np.abs(wanted).max()


def test_rejects_adapters_for_gguf_files(tmp_path):
    [file] = write_gguf(REPO / "tests/golden/llama_c", tmp_path / "dense.gguf")
    run = subprocess.run(command(file, "--out", tmp_path / "moe", "--adapter", tmp_path), capture_output=True, text=True)
    assert run.returncode == 2 and "upcycle.source_gguf" in run.stdout + run.stderr


def test_exact_classes_are_exact_in_transformers():
    """Each golden's error compares runs of the source and of the result in transformers."""
    kinds = {case["exactness"] for case in CASES.values()}
    assert kinds == {"exact", "exact for a uniform router", "inexact"}
    for case in CASES.values():
        assert (case["error"] < EXACT) == (case["exactness"] != "inexact"), case["name"]


# ------------------------------------------------------- while it is written ----

def command(*words):
    return [*map(str, (find_binary(), "upcycle", *words, "--json"))]


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A Mixtral of zeros, large enough that writing its copies takes a while."""
    folder = tmp_path_factory.mktemp("sparse") / "model"
    write_sparse(folder, layers=2, experts=8, hidden=512, inner=2048)
    return folder


def test_killed_run_leaves_no_finished_folder(sparse, tmp_path):
    out = tmp_path / "out"
    words = command(sparse, "--out", out, "--from-moe", "--multiply", 4, "--noise", 0.1, "--dtype", "f32")
    for delay in (0.02, 0.1, 0.3):
        running = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        running.send_signal(signal.SIGKILL)
        assert running.wait() in (-signal.SIGKILL, 0)
        assert not out.exists() or (out / "config.json").is_file()
    assert subprocess.run([*words, "--force"], stdout=subprocess.DEVNULL).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_stopped_run_removes_its_files(sparse, tmp_path):
    words = command(sparse, "--out", tmp_path / "out", "--from-moe", "--multiply", 16, "--dtype", "f32")
    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=take_signals)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    report = json.loads(running.communicate()[0])
    assert running.returncode == 130
    assert report["diagnostics"][0]["code"] == "upcycle.interrupted"
    assert list(tmp_path.iterdir()) == []


def test_large_checkpoint_is_rejected_before_writing(sparse, tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    experts = 2 * 8 * 3 * 512 * 2048 * 4  # bytes in f32
    copies = free // experts + 2
    if copies > 4096:
        pytest.skip("the disk has room for more experts than a model may have")
    done = subprocess.run(command(sparse, "--out", tmp_path / "out", "--from-moe", "--multiply", copies,
                                  "--dtype", "f32"), capture_output=True, text=True)
    assert done.returncode == 2
    assert json.loads(done.stdout)["diagnostics"][0]["code"] == "upcycle.no_space"
    assert list(tmp_path.iterdir()) == []


def test_memory_is_independent_of_model_size(tmp_path):
    """A 0.4 GB model with 64 MiB matrices needs less than 256 MiB of memory."""
    write_sparse(tmp_path / "model", layers=1, experts=2, hidden=2048, inner=16384)
    done = subprocess.run(["/usr/bin/env", "python3", "-c", PEAK, *command(
        tmp_path / "model", "--out", tmp_path / "out", "--from-moe", "--multiply", 2)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 256 << 10  # KiB


PEAK = """import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)"""
