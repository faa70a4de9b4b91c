"""Tests the measures of expert use and the verdict, tables and plots of router training with handwritten numbers."""

import pathlib
import sys
import xml.etree.ElementTree

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from training import expert_use  # noqa: E402
from training.router import summary  # noqa: E402


def test_even_use_has_zero_gini_and_full_entropy():
    use = np.full((2, 4), 0.25)
    assert expert_use.gini(use) == pytest.approx([0, 0])
    assert expert_use.entropy(use) == pytest.approx([1, 1])


def test_single_used_expert_has_largest_gini():
    use = np.array([[0, 0, 0, 1.0]])
    assert expert_use.gini(use) == pytest.approx([3 / 4])
    assert expert_use.entropy(use) == pytest.approx([0])


def test_gini_and_entropy_match_their_definitions():
    share = np.array([0.1, 0.2, 0.3, 0.4])
    differences = np.abs(share[:, None] - share[None]).mean() / (2 * share.mean())
    assert expert_use.gini(share[None]) == pytest.approx([differences])
    assert expert_use.entropy(share[None]) == pytest.approx([-(share * np.log(share)).sum() / np.log(4)])


def test_capacity_rounds_up_except_whole_products():
    assert expert_use.capacity_of(40, 4, 1.0) == 10
    assert expert_use.capacity_of(40, 4, 1.1) == 11  # 1.1 * 10 slightly exceeds 11 in binary floating point
    assert expert_use.capacity_of(41, 4, 1.0) == 11


def test_drop_rate_counts_excess_per_batch():
    batches = np.array([[[8, 0], [4, 4]], [[0, 8], [4, 4]]])  # 2 batches, 2 layers, 2 experts
    assert expert_use.drop_rate(batches, 1.0) == pytest.approx([0.5, 0])  # loads are even in total but not per batch
    assert expert_use.drop_rate(batches, 1.5) == pytest.approx([0.25, 0])
    assert expert_use.drop_rate(batches, 2.0) == pytest.approx([0, 0])


def test_description_has_all_measures_per_layer():
    told = expert_use.describe([[[6, 2]], [[6, 2]]], 1.25)
    assert told == {"share": [[0.75, 0.25]], "gini": [0.25], "entropy": [pytest.approx(0.8113)], "least": [0.5],
                    "drop_rate": [pytest.approx(1 / 8)]}


@pytest.mark.parametrize("counts", [[[[0, 0]]], [[[5]]], [[1, 2]]])
def test_rejects_empty_and_misshapen_counts(counts):
    with pytest.raises(ValueError, match="instead of \\[batches, layers, experts\\]"):
        expert_use.describe(counts, 1)


def measured(phase, step, loss, share):
    return {"phase": phase, "step": step, "loss": {"text": loss, "mean": loss},
            "use": expert_use.describe([share], 1.25), "token_entropy": [0.9] * len(share)}


def metrics(last_loss=1.0, last_share=((5, 5, 5, 5), (6, 5, 5, 4))):
    return {"measured": [measured("untrained", 0, 2.0, [[9, 1, 5, 5], [5, 5, 5, 5]]),
                         measured("router", 5, 1.5, [[6, 4, 5, 5], [5, 5, 5, 5]]),
                         measured("router", 10, 1.4, [[6, 4, 5, 5], [5, 5, 5, 5]]),
                         measured("experts", 20, last_loss, list(last_share))]}


def test_even_training_with_lower_loss_passes():
    assert list(summary.verdict(metrics()).values()) == [True, True, True]


@pytest.mark.parametrize("change, failed", [
    (dict(last_share=((14, 2, 2, 2), (5, 5, 5, 5))), ["gini below 0.3"]),
    (dict(last_share=((5, 5, 5, 5), (7, 6, 6, 1))), ["every expert above 0.2 of the even share"]),
    (dict(last_loss=2.0), ["loss below the untrained router's"]),
])
def test_each_criterion_fails_by_its_worst_layer(change, failed):
    assert [what for what, met in summary.verdict(metrics(**change)).items() if not met] == failed


def test_judges_the_stored_model():
    trained = {**metrics(), "stored": measured("stored", 20, 2.5, [[5, 5, 5, 5]] * 2)}
    assert summary.last(trained)["loss"]["mean"] == 2.5
    assert not summary.verdict(trained)["loss below the untrained router's"]


def test_table_has_a_row_per_phase():
    dense = {"measured": [{"phase": "untrained", "step": 0, "loss": {"mean": 2.0}},
                          {"phase": "ffn", "step": 20, "loss": {"mean": 1.1}}]}
    rows = summary.table({"seed0": metrics()}, {"dense": dense}).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [
        "seed0, untrained", "seed0, router", "seed0, experts", "dense, untrained", "dense, ffn"]
    assert rows[1].split("|")[2].strip() == "1.4000" and rows[4].split("|")[2:4] == [" 1.1000 ", "  "]


@pytest.mark.parametrize("name", ["curves", "use"])
def test_plots_are_small_and_reproducible(tmp_path, name):
    pytest.importorskip("matplotlib")
    from training.router import plots

    def draw(path):
        seeds = {"seed0": metrics(), "seed1": metrics(0.9)}
        if name == "use":
            plots.draw_use(path, seeds)
        else:
            plots.draw_curves(path, seeds, {"dense": metrics(0.8)}, 2048)
        return path.read_bytes()

    drawn = draw(tmp_path / "a.svg")
    assert drawn == draw(tmp_path / "b.svg") and 1000 < len(drawn) < 100_000
    assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg") and b"<dc:date>" not in drawn
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.svg"]
