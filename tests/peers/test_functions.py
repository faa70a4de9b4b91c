"""The accuracy of engine functions that the rules of targets rely on (scripts/measure_functions.py)."""

import sys

import pytest

from goldens import REPO

sys.path.insert(0, str(REPO / "scripts"))

from measure_functions import BEGIN, ENGINES, README, ROWS, error_of, table  # noqa: E402


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[3]:g} to {row[4]:g}")
def test_function_errors_match_expectations(engine, row):
    name, nodes, exact, least, most = row
    inexact = (engine.startswith("onnxruntime") and name == "Sigmoid") or (engine.startswith("OpenVINO") and name == "Erf")
    assert (error_of(ENGINES[engine], nodes, exact, least, most) < 1e-6) != inexact


def test_document_has_each_row():
    shown = README.read_text().split(BEGIN)[1].splitlines()
    assert [line.split("|")[1:4] for line in shown if line.startswith("|")][:len(ROWS) + 2] == \
        [line.split("|")[1:4] for line in table(ROWS[:1]).splitlines()[:2]] + \
        [[f" {name} ", f" {least:g} ", f" {most:g} "] for name, _, _, least, most in ROWS]
