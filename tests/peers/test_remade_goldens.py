"""scripts/make_golden.py reproduces a family's committed goldens. Excluded from the default run, as it needs PyTorch:

    .venv/bin/pip install torch==2.13.0      # first: this pin gives a CPU build
    .venv/bin/pip install transformers safetensors xxhash accelerate compressed-tensors
    MOEC_REMAKE_FAMILY=deepseek_v3 .venv/bin/pytest tests/peers/test_remade_goldens.py
"""

import json
import os
import subprocess
import sys

import pytest

from goldens import REPO, compare_tensors
from safetensors_files import read_tensors

FAMILY = os.environ.get("MOEC_REMAKE_FAMILY")


@pytest.mark.skipif(not FAMILY, reason="needs PyTorch; set MOEC_REMAKE_FAMILY to the family to recompute")
def test_committed_goldens_are_reproducible(tmp_path):
    command = [sys.executable, REPO / "scripts/make_golden.py", "--family", FAMILY, "--out", tmp_path]
    subprocess.run(command, check=True)
    cases = sorted(path.name for path in tmp_path.iterdir() if path.name != "top_k")
    assert cases, f"make_golden.py has no family {FAMILY}"
    for case in cases:
        compare_case(tmp_path / case, REPO / "tests/golden" / case)
    for folder in sorted((tmp_path / "top_k").glob("*")):  # goldens with other numbers of experts per token
        compare_results(folder, REPO / "tests/golden/top_k" / folder.name)


def compare_case(made, committed):
    assert sorted(path.name for path in made.iterdir()) == sorted(path.name for path in committed.iterdir())
    assert json.loads((made / "config.json").read_text()) == json.loads((committed / "config.json").read_text())
    compare_results(made, committed)


def compare_results(made, committed):
    for path in made.glob("*.safetensors"):
        compare_tensors(read_tensors(path), read_tensors(committed / path.name), path.name)
    infos = [json.loads((folder / "golden.json").read_text()) for folder in (made, committed)]
    compare_texts(*(info.get("greedy", {}) for info in infos))  # labels of tokens have no greedy text
    assert infos[0]["steps"] == infos[1]["steps"]


def compare_texts(made, committed):
    """The smallest gap between two logits may differ slightly, but the tokens may not."""
    gaps = [text.pop("min_gap", 0) for text in (made, committed)]
    assert made == committed
    assert gaps[0] == pytest.approx(gaps[1], rel=1e-3)
