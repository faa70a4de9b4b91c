"""Limits the quantization cost of tinymoe to the figures that scripts/measure_weights.py measured."""

import dataclasses
import json

import pytest

from conftest import find_binary
from goldens import REPO
from measure_weights import FORMS, TEXTS, WINDOW, Measurer

FIGURES = json.loads((REPO / "tests/data/weight_figures.json").read_text())
BY_NAME = {form.name: form for form in FORMS}
FREE = [form for form in FORMS if f"{form.name} calibrated" in BY_NAME]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """reports(form) → the report of a comparison; exports and compares each form once."""
    measurer, made = Measurer(find_binary(), tmp_path_factory.mktemp("weights"), FIGURES["windows"]), {}

    def report(form):
        if form not in made:
            made[form] = measurer.compare(form)
        return made[form]

    return report


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_cost_stays_within_measured_figures(reports, form):
    report, figure = reports(form), FIGURES["forms"][form.name]
    assert report["expert_bits"] == pytest.approx(figure["bits"], abs=0.01)
    assert report["kl"]["mean"] <= 1.15 * figure["kl"]
    assert report["top1"]["mean"] >= figure["top1"] - 0.01


@pytest.mark.parametrize("form", FREE, ids=lambda form: form.name)
def test_calibration_reduces_the_cost(reports, form):
    """On 32 windows, calibration removes 44 % or more of the cost; on the few windows here, the share varies
    between forms."""
    free, calibrated = reports(form), reports(BY_NAME[f"{form.name} calibrated"])
    assert calibrated["expert_bits"] == free["expert_bits"]
    assert calibrated["kl"]["mean"] <= 0.75 * free["kl"]["mean"]


def first_bytes(text, windows):
    """Returns `windows` windows of the text, which is repeated if it is shorter."""
    size = windows * WINDOW
    return (text * (size // len(text) + 1))[:size]


CALIBRATION = TEXTS["calibration"].read_bytes()
POOR_TEXTS = {
    "one window": CALIBRATION[:WINDOW],
    "arithmetic only": CALIBRATION[64 * WINDOW : 96 * WINDOW],
    "narrow arithmetic": (REPO / "tests/data/tinymoe_narrow.bin").read_bytes(),
    "one line": first_bytes(b"The quick brown fox jumps over the lazy dog.\n", 32),
    "German": first_bytes((REPO / "tests/data/foreign.txt").read_bytes(), 32),
    "zeros": bytes(32 * WINDOW),
}


@pytest.mark.parametrize("text", POOR_TEXTS)
def test_calibration_on_poor_text_is_harmless(reports, tmp_path, text):
    (tmp_path / "text").write_bytes(POOR_TEXTS[text])
    free = BY_NAME["int4:32"]
    calibrated = dataclasses.replace(free, calibrated=True, calibration=tmp_path / "text")
    assert reports(calibrated)["kl"]["mean"] <= reports(free)["kl"]["mean"]
