"""scripts/measure_routing.py applies its significance limit to pairs of checkpoints."""

import pathlib
import sys
from collections import Counter

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

import measure_routing  # noqa: E402


def seeds_of(pairs):
    return {seed: Counter(transformers=a, ane=b) for seed, (a, b) in enumerate(pairs)}


def test_computes_the_tail_of_a_fair_coin():
    assert measure_routing.chance_of_at_least(0, 0) == 1
    assert measure_routing.chance_of_at_least(3, 3) == 1 / 8
    assert measure_routing.chance_of_at_least(2, 3) == 1 / 2
    assert measure_routing.chance_of_at_least(0, 9) == 1
    assert measure_routing.chance_of_at_least(8, 10) == pytest.approx(56 / 1024)


def test_ignores_pairs_without_difference():
    assert measure_routing.compare_pairs([(0, 0), (2, 2), (5, 1), (0, 1), (1, 0)]) == (2, 1, 7 / 8, 1 / 2)
    assert measure_routing.compare_pairs([]) == (0, 0, 1, 1)


def test_passes_only_with_few_worse_checkpoints(capsys):
    assert measure_routing.judge({"mixtral": seeds_of([(0, 1), (0, 1), (0, 8), (1, 0)])}, ["ane"])
    assert "| mixtral | ane | 4 | 1 | 3 | 0.31 | 0.94 | met |" in capsys.readouterr().out
    assert not measure_routing.judge({"mixtral": seeds_of([(0, 1)] * 5)}, ["ane"])
    assert "| mixtral | ane | 5 | 0 | 5 | 0.031 | 1 | FAILED |" in capsys.readouterr().out


def test_families_share_the_significance_level():
    five_worse = seeds_of([(0, 1)] * 5)
    assert measure_routing.judge({"mixtral": five_worse, "olmoe": seeds_of([(1, 0)])}, ["ane"])
    assert not measure_routing.judge({"mixtral": seeds_of([(0, 1)] * 6), "olmoe": seeds_of([(1, 0)])}, ["ane"])
