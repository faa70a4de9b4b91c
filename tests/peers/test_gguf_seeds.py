"""The seeds of the fuzz target of GGUF files are those that scripts/make_gguf_seeds.py writes, and moec takes their models."""

import subprocess
import sys

import pytest

from goldens import REPO

SEEDS = sorted((REPO / "tests/reproducers/gguf_fuzz").iterdir())
PAYLOAD_UNIT = 4096


def test_the_committed_seeds_are_remade(tmp_path):
    out, words = tmp_path / "seeds", tmp_path / "words.dict"
    subprocess.run([sys.executable, REPO / "scripts/make_gguf_seeds.py", "--out", out, "--dictionary", words], check=True)
    assert words.read_bytes() == (REPO / "tests/fuzz/gguf_fuzz.dict").read_bytes()
    made = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(made) == 18
    committed = {path.name: path.read_bytes() for path in SEEDS}
    assert {name: committed.get(name) for name in made} == made


DIVIDED = ("llama", "llama4_text", "mistral")  # their rotations have divisors, which are no weights and may not be 0


@pytest.mark.parametrize("seed", [path for path in SEEDS if path.name not in DIVIDED], ids=lambda path: path.name)
def test_moec_takes_the_model_of_a_seed(seed, tmp_path, moec):
    """With zeros for weights."""
    data, path = seed.read_bytes(), tmp_path / "model.gguf"
    path.write_bytes(data[:-1] + bytes(PAYLOAD_UNIT * data[-1]))
    assert moec("inspect", path).startswith(f"{seed.name}: ")
