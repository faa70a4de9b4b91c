"""`moec check` and `moec validate` pass for the ONNX export of every golden case, with both engines of moec and in f16."""

import json

import pytest

from goldens import CASES

# Two engines within this distance of the golden differ by at most 1e-5. The relative L2 of a shard's outputs, chained.
MOST = 5e-6


@pytest.mark.parametrize("case", CASES)
def test_exports_match_goldens(case, export, golden, moec):
    want = golden(case)
    out = export(want.checkpoint, "--tokens", "1,16")
    moec("check", out)
    for options in (("--engine", "cpu"), ("--engine", "reference")):
        report = json.loads(moec("validate", out, "--golden", want.folder, *options, "--json"))
        errors = {shard["shard"]: shard["chained"]["relative_l2"] for shard in report["shards"]}
        assert {name: error for name, error in errors.items() if error > MOST} == {}
    moec("validate", out, "--golden", want.folder, "--precision", "f16")
