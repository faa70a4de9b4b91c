"""The seeds of the GGUF fuzz target match the output of scripts/make_gguf_seeds.py, and moec accepts their models."""

import subprocess
import sys

import pytest

from goldens import REPO

SEEDS = sorted((REPO / "tests/reproducers/gguf_fuzz").iterdir())
PAYLOAD_UNIT = 4096


def test_committed_seeds_are_reproducible(tmp_path):
    out, words = tmp_path / "seeds", tmp_path / "words.dict"
    subprocess.run([sys.executable, REPO / "scripts/make_gguf_seeds.py", "--out", out, "--dictionary", words], check=True)
    assert words.read_bytes() == (REPO / "tests/fuzz/gguf_fuzz.dict").read_bytes()
    made = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(made) == 34
    committed = {path.name: path.read_bytes() for path in SEEDS}
    assert {name: committed.get(name) for name in made} == made


DIVIDED = ("gemma4_text", "llama", "llama4_text", "mistral")  # rotation divisors are not weights and must not be 0


@pytest.mark.parametrize("seed", [path for path in SEEDS if path.name not in DIVIDED], ids=lambda path: path.name)
def test_moec_accepts_the_model_of_a_seed(seed, tmp_path, moec):
    """Replaces the weights with zeros."""
    data, path = seed.read_bytes(), tmp_path / "model.gguf"
    path.write_bytes(data[:-1] + bytes(PAYLOAD_UNIT * data[-1]))
    assert moec("inspect", path).startswith(f"{seed.name}: ")
