"""Exports every golden for the Neural Engine with the options that change exports most. The exports pass their
checks on each chip and validate in f16 with the reference executor."""

import pytest

from goldens import CASES, REPO

VARIANTS = {
    "io": ("--kv", "io"),
    "bc1s": ("--layout", "bc1s"),
    "bank": ("--experts", "bank"),
    "iterate": ("--routing", "iterate"),
    "host_groups": ("--routing", "host", "--experts-per-shard", "2"),
    "functions": ("--multi-function",),
    "range": ("--widths", "range"),
    "range_io": ("--widths", "range", "--kv", "io"),
    "tree": ("--sum", "tree"),
    "head_slices": ("--head-slices", "3"),
}


@pytest.fixture
def exported(export, golden, moec):
    """exported(case, *options) → the folder of an export that validates in f16."""

    def run(case, *options):
        checkpoint = golden(case).checkpoint
        out = export(checkpoint, "--target", "ane", *options)
        moec("validate", out, "--golden", REPO / "tests/golden" / case, "--precision", "f16")
        return out

    return run


@pytest.mark.parametrize("case", CASES)
def test_exports_match_goldens_on_every_chip(case, exported, moec):
    out = exported(case, "--tokens", "1,16")
    for chip in ("m1", "m2", "m3", "m4"):
        moec("check", out, "--chip", chip, "--no-digests")


@pytest.mark.parametrize("case", ["qwen2_moe_b", "olmoe_a", "zaya_b"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_exports_match_goldens_in_every_form(variant, case, exported, moec):
    moec("check", exported(case, "--tokens", "1,5,32", *VARIANTS[variant]))
