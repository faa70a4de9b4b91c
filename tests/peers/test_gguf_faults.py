"""The files of gguf_faults.py are faulty: llama.cpp rejects them, aborts, or loads them and computes other results
than from the valid file. The silent faults are those that a checker must find."""

import functools
import json
import subprocess

import numpy as np
import pytest

import llama_cpp
from conftest import find_binary
from gguf_cases import all_tokens
from gguf_faults import ABORTED, CODES, FAULTS, MEANT, SILENT, broken
from gguf_models import read_model, write_model

LEAST = 1e-3  # minimum difference caused by a silent fault, relative to the largest logit


@pytest.fixture(scope="module")
def good(golden, gguf_checkpoint, tmp_path_factory):
    """good(case) → (the case's Model, its logits)."""

    @functools.cache
    def make(case):
        model = read_model(gguf_checkpoint(case))
        [file] = write_model(model, tmp_path_factory.mktemp("good") / "model.gguf")
        return model, llama_cpp.logits(file, all_tokens(golden(case)))

    return make


@pytest.mark.parametrize("name", FAULTS)
def test_fault_has_the_expected_outcome(name, good, golden, tmp_path):
    fault = FAULTS[name]
    model, wanted = good(fault.case)
    [file] = write_model(broken(fault, model), tmp_path / "broken.gguf")
    tokens = all_tokens(golden(fault.case))
    if fault.outcome == SILENT:
        assert np.abs(llama_cpp.logits(file, tokens) - wanted).max() > LEAST * np.abs(wanted).max()
        return
    with pytest.raises(llama_cpp.LlamaError) as died:
        llama_cpp.logits(file, tokens)
    assert died.value.aborted == (fault.outcome == ABORTED), died.value


@pytest.mark.parametrize("name", FAULTS)
def test_moec_names_the_fault(name, gguf_checkpoint, tmp_path):
    fault = FAULTS[name]
    [file] = write_model(broken(fault, read_model(gguf_checkpoint(fault.case))), tmp_path / "broken.gguf")
    planned = subprocess.run([find_binary(), "plan", file, "--json"], capture_output=True, text=True)
    codes = {found["code"] for found in json.loads(planned.stdout)["diagnostics"]}
    assert (codes == set()) if name in MEANT else (CODES[name] in codes)
    assert planned.returncode == (2 if name in CODES and CODES[name] != "gguf.absent" else 0)


def test_each_fault_has_an_expected_outcome():
    assert CODES.keys() | MEANT == set(FAULTS) and not CODES.keys() & MEANT
