"""Compares moec's decoded values of GGUF block types with those of the `gguf` package bit for bit, and the sizes of
all types."""

import os
import re
import subprocess

import pytest
from gguf.constants import GGML_QUANT_SIZES

from conftest import find_binary
from gguf_blocks import HALVES, write_blocks, write_fixture
from goldens import REPO

FIXTURE = REPO / "tests/data/gguf_blocks.gguf"
BLOCKS = 2000
INTERMEDIATE = {"q8_1", "q8_k"}  # used only in products, never in files
NEWER = {"q2_0"}  # types that the package does not know


def find_tests():
    """Returns the latest build of the readers' unit tests, which can read blocks from any file."""
    builds = [find_binary().parents[1], REPO / "build/release", REPO / "build/dev"]
    found = [path for build in builds if (path := build / "tests/frontends_tests").is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


@pytest.mark.skipif(find_tests() is None, reason="cmake --build --preset dev --target frontends_tests")
def test_block_values_match_the_package(tmp_path):
    write_blocks(tmp_path / "blocks.gguf", lambda elements: BLOCKS, seed=11)
    run = subprocess.run(
        [find_tests(), "--gtest_filter=GgufBlocks.*"],
        env={**os.environ, "MOEC_GGUF_BLOCKS": str(tmp_path / "blocks.gguf")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(rf"{len(HALVES)} types, {BLOCKS * sum(sizes_of(name)[0] for name in HALVES)} elements", run.stdout)


def test_committed_blocks_are_reproducible(tmp_path):
    write_fixture(tmp_path / "blocks.gguf")
    assert (tmp_path / "blocks.gguf").read_bytes() == FIXTURE.read_bytes()


def sizes_of(name):
    return next(sizes for kind, sizes in GGML_QUANT_SIZES.items() if kind.name == name)


def test_type_table_matches_the_package():
    """moec's table is read from its source."""
    source = (REPO / "ir/graph/block_type.h").read_text()
    rows = re.findall(r'\{"(\w+)", (\d+), (\d+), (\d+), BlockValues::\w+[,}]', source)
    ours = {name: tuple(map(int, numbers)) for name, *numbers in rows}
    theirs = {kind.name.lower(): (kind.value, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    assert {name: row for name, row in theirs.items() if name not in INTERMEDIATE} == {
        name: row for name, row in ours.items() if name not in NEWER
    }
