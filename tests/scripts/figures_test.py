"""scripts/figures.py writes its tables only between the markers of a page."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

import figures  # noqa: E402

REPORT = {
    "ok": True,
    "shards": [
        {"alone": {"cosine": 0.9, "relative_l2": 1e-3}, "cache": {"cosine": 0.8, "relative_l2": 1e-4}},
        {
            "alone": {"cosine": 1.0, "relative_l2": 2e-3},
            "router": {"tokens": 4, "same_experts": 3, "least_margin": 0.5},
        },
    ],
    "logits": {"same_top1": 4, "tokens": 4, "mean_kl": 2e-6},
    "greedy": {"equal": 8, "wanted": 8},
}


def test_row_contains_the_worst_shard_figures():
    assert figures.row("case", "f16", REPORT) == [
        "case", "f16", "0.800000000", "2.0e-03", "3 of 4", "5.0e-01", "4 of 4", "2e-06", "8 of 8", "yes",
    ]  # fmt: skip


def test_omits_greedy_tokens_of_labelling_models():
    report = {**REPORT, "greedy": {"equal": 0, "wanted": 0}, "ok": False}
    assert figures.row("case", "f16", report)[-2:] == ["–", "NO"]


MEASURED = {
    "chain": {"cosine": 0.99999, "same_top1": 3, "rows": 4},
    "graphs": [
        {"ops": [{"preferred": "HTP"}, {"preferred": "CPU"}], "cosine": 0.9},
        {"ops": [{"preferred": "HTP"}]},  # an idle file, which did not run
    ],
}


def test_emulator_row_is_the_minimum():
    assert figures.EmulatorFigures(MEASURED).cells() == ["2 of 3", "0.9000000", "0.999990", "3 of 4"]


def test_last_emulator_row_covers_all_cases():
    near = {"chain": {"cosine": 0.9, "same_top1": 4, "rows": 4}, "graphs": []}
    results = {"one": [figures.EmulatorFigures(MEASURED)], "two": [figures.EmulatorFigures(near)]}
    assert figures.qnn_table(["v75"], results).splitlines()[2:] == [
        "| case | ops on HTP | min. cosine of a shard | chain | top-1 |",
        "| --- | --- | --- | --- | --- |",
        "| one | 2 of 3 | 0.9000000 | 0.999990 | 3 of 4 |",
        "| two | 0 of 0 | 1.0000000 | 0.900000 | 4 of 4 |",
        "| all | 2 of 3 | 0.9000000 | 0.900000 | 7 of 8 |",
    ]


def test_differing_chips_have_separate_columns():
    near = figures.EmulatorFigures({"chain": {"cosine": 0.9, "same_top1": 4, "rows": 4}, "graphs": []})
    same = figures.qnn_table(["v73", "v75"], {"one": [near, near]})
    assert same.startswith("Qualcomm's emulator, v73, v75, all of which give these figures:\n")
    assert same.splitlines()[-1] == "| all | 0 of 0 | 1.0000000 | 0.900000 | 4 of 4 |"
    other = figures.qnn_table(["v73", "v75"], {"one": [near, figures.EmulatorFigures(MEASURED)]})
    heads = other.splitlines()[2].split(" | ")
    assert heads[5:] == ["v75: ops on HTP", "v75: min. cosine of a shard", "v75: chain", "v75: top-1 |"]
    assert other.splitlines()[-1].endswith("| 4 of 4 | 2 of 3 | 0.9000000 | 0.999990 | 3 of 4 |")


def test_omits_router_figures_without_experts():
    report = {**REPORT, "shards": REPORT["shards"][:1]}
    assert figures.row("case", "f32", report)[4:6] == ["–", "–"]


def test_replaces_only_text_between_markers(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n\n{figures.BEGIN}\n\nold\n{figures.END}\n\nbehind\n")
    for _ in range(2):  # a second run must not change anything
        figures.write(page, "| new |\n")
        assert page.read_text() == f"before\n\n{figures.BEGIN}\n\n| new |\n\n{figures.END}\n\nbehind\n"


@pytest.mark.parametrize("text", ["", figures.BEGIN, f"{figures.END}{figures.BEGIN}"])
def test_rejects_a_page_without_markers(tmp_path, text):
    page = tmp_path / "README.md"
    page.write_text(text)
    with pytest.raises(SystemExit, match="must contain the lines"):
        figures.write(page, "new")
    assert page.read_text() == text
