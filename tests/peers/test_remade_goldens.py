"""One family's goldens made anew by scripts/make_golden.py are those that are committed. Not in the default
run, for it needs PyTorch:

    .venv/bin/pip install torch==2.13.0      # first: this pin gives a CPU build
    .venv/bin/pip install transformers safetensors xxhash accelerate compressed-tensors
    MOEC_REMAKE_FAMILY=deepseek_v3 .venv/bin/pytest tests/peers/test_remade_goldens.py
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from goldens import REPO
from safetensors_files import read_tensors

FAMILY = os.environ.get("MOEC_REMAKE_FAMILY")
# Sums run in another order on another processor: relative to a value, and to the largest of its tensor.
ABSOLUTE, RELATIVE, OF_LARGEST = 1e-5, 1e-4, 1e-6


@pytest.mark.skipif(not FAMILY, reason="needs PyTorch: MOEC_REMAKE_FAMILY names the family to make anew")
def test_a_family_made_anew_is_the_committed_one(tmp_path):
    command = [sys.executable, REPO / "scripts/make_golden.py", "--family", FAMILY, "--out", tmp_path]
    subprocess.run(command, check=True)
    cases = sorted(path.name for path in tmp_path.iterdir())
    assert cases, f"make_golden.py has no family {FAMILY}"
    for case in cases:
        compare_case(tmp_path / case, REPO / "tests/golden" / case)


def compare_case(made, committed):
    assert sorted(path.name for path in made.iterdir()) == sorted(path.name for path in committed.iterdir())
    assert json.loads((made / "config.json").read_text()) == json.loads((committed / "config.json").read_text())
    for path in made.glob("*.safetensors"):
        compare_tensors(read_tensors(path), read_tensors(committed / path.name), path.name)
    infos = [json.loads((folder / "golden.json").read_text()) for folder in (made, committed)]
    compare_texts(*(info.get("greedy", {}) for info in infos))  # labels of tokens have no greedy text
    assert infos[0]["steps"] == infos[1]["steps"]


def compare_texts(made, committed):
    """The gap between the two best logits is a float, all else is tokens."""
    gaps = [text.pop("min_gap", 0) for text in (made, committed)]
    assert made == committed
    assert gaps[0] == pytest.approx(gaps[1], rel=1e-3)


def compare_tensors(made, committed, file):
    assert made.keys() == committed.keys()
    for name, wanted in committed.items():
        exact = not file.startswith("golden") or wanted.dtype.kind == "i"
        largest = np.abs(wanted).max(initial=0)
        tolerance = (0, 0) if exact else (RELATIVE, max(ABSOLUTE, OF_LARGEST * largest))
        np.testing.assert_allclose(made[name], wanted, *tolerance, err_msg=f"{file}: {name}")
