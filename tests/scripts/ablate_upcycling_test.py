"""ablate_upcycling.py checks its grid before training, runs moec as documented, and summarizes its runs."""

import json
import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "scripts"))

import ablate_upcycling  # noqa: E402
from ablate_upcycling import Ablation, flags_of  # noqa: E402
from golden.request import Refused  # noqa: E402
from training import expert_use  # noqa: E402
from training.upcycling import card, effects  # noqa: E402
from training.upcycling.grid import DENSE, Start, Variant  # noqa: E402


def ablation(*words):
    return Ablation(flags_of([str(word) for word in words]))


def test_default_grid_covers_combinations_and_seeds():
    names = [name for name, _, _ in ablation().named()]
    assert len(names) == len(set(names)) == 3 * (2 * 2 * 2 * 2 + 2)
    assert names[:3] == ["dense-ffn-0", "dense-all-0", "e8-k2-s0-virtual-0"]
    assert names[-1] == "e16-k4-s32-random0.02-2"


def test_dense_models_train_equally_many_steps():
    asked = ablation("--steps", 7, "--expert-steps", 5)
    assert sum(phase.steps for phase in asked.phases) == 12
    assert {part: phases[0].steps for part, phases in asked.dense_phases.items()} == {"ffn": 12, "all": 12}


def test_runs_the_documented_moec_command():
    command = Variant(8, 2, 32, "random:0.02").command("moec", "dense", "out", Start(2, "drop:0.5", "0.01"), 3)
    assert " ".join(command) == (
        "moec upcycle dense --out out --arch granitemoeshared --experts 8 --top-k 2 --granularity 2 --shared-width 32 "
        "--init drop:0.5 --router random:0.02 --noise 0.01 --seed 3")


@pytest.mark.parametrize("words, message", [
    (("--experts", "8,x"), "--experts 'x' is not a number"),
    (("--experts", "8,8"), "--experts 8,8 has a value twice"),
    (("--router", "zero,zero"), "--router zero,zero has a value twice"),
    (("--top-k", "3"), "e8-k3-s0-virtual: 3 top-k are not a multiple of the granularity 2"),
    (("--experts", "9"), "9 experts are not a multiple of the granularity 2"),
    (("--shared", "31"), "97 routed units are not a multiple"),
    (("--shared", DENSE["intermediate_size"]), "uses all 128 hidden units"),
    (("--experts", "4"), "e4-k4-s0-virtual: a top-k of 4 uses all 4 experts"),
    (("--noise", "-1"), "--noise -1 must be at least 0"),
    (("--jobs", "0"), "--jobs 0 must be at least 1"),
    (("--seeds", "1,1"), "--seeds 1,1 has a seed twice"),
    (("--expert-lr", "0"), "--expert-lr 0 must be more than 0"),
])
def test_rejects_conflicting_sizes(words, message):
    with pytest.raises(Refused, match=message):
        ablation(*words)


def test_rejects_a_missing_program_early(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["ablate_upcycling.py", "--moec", str(tmp_path / "moec"), "--work",
                                      str(tmp_path / "work"), "--out", str(tmp_path / "out")])
    assert ablate_upcycling.main() == 2
    assert "the program" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_command_lists_only_relevant_flags():
    asked = ablation("--moec", "/some/where", "--jobs", "1", "--seeds", "4", "--top-k", "2", "--force")
    assert asked.command() == "scripts/ablate_upcycling.py --top-k 2 --seeds 4"
    assert "/some/where" not in str(asked.request())


# ------------------------------------------------------------- results ----

def measured(phase, step, loss, share=None):
    found = {"phase": phase, "step": step, "loss": {"mean": loss}}
    return {**found, "use": expert_use.describe([share], 1.25)} if share else found


def metrics(untrained, router, experts, share=((5, 5, 5, 5),)):
    start = {**measured("untrained", 0, untrained, [[8, 4, 4, 4]]), "parameters": 100, "active_parameters": 60}
    return {"measured": [start, measured("router", 5, router, [[6, 5, 5, 4]]),
                         measured("experts", 10, experts, list(share))]}


RUNS = {(Variant(8, k, 0, router), seed): metrics(2.0, 1.5, loss + seed / 100)
        for k, router, loss in ((2, "virtual", 1.0), (4, "virtual", 0.9), (2, "zero", 1.2), (4, "zero", 0.8))
        for seed in (0, 1)}


def test_effects_compare_pairs_on_one_axis():
    told = {(e["axis"], e["from"], e["to"]): e for e in effects.effects_of(RUNS)}
    assert set(told) == {("top_k", 2, 4), ("router", "virtual", "zero")}
    assert told["top_k", 2, 4] == {"axis": "top_k", "from": 2, "to": 4, "pairs": 4, "change": -0.25, "lower": 4}
    assert told["router", "virtual", "zero"]["change"] == pytest.approx(0.05)
    assert told["router", "virtual", "zero"]["lower"] == 2


def test_effects_require_both_runs_of_a_pair():
    runs = {key: run for key, run in RUNS.items() if key != (Variant(8, 4, 0, "zero"), 1)}
    assert {e["axis"]: e["pairs"] for e in effects.effects_of(runs)} == {"top_k": 3, "router": 3}


def test_summary_has_mean_and_worst_seed():
    told = effects.summary_of([metrics(2.0, 1.5, 1.0), metrics(2.0, 2.5, 1.2, ((8, 2, 5, 5),))])
    assert told["loss"] == {"untrained": 2.0, "router": 2.0, "experts": 1.1} and told["spread"] == 0.2
    assert told["better_than_untrained"] == {"router": 1, "experts": 2} and told["seeds"] == 2
    assert told["gini"] == pytest.approx(0.225) and told["least"] == pytest.approx(0.4)
    assert told["drop_rate"] == pytest.approx(0.05, abs=0.06) and told["active_parameters"] == 60


def report_of(asked):
    summaries = [{**vars(variant), "summary": effects.summary_of([RUNS[variant, 0], RUNS[variant, 1]])}
                 for variant in dict.fromkeys(variant for variant, _ in RUNS)]
    return {"command": asked.command(), "versions": {"torch": "2", "transformers": "5", "python": "3"},
            "request": asked.request(), "dense_model": {"parameters": 80, "loss": 1.1},
            "dense": [{"name": "dense, all", "loss": 0.95, "spread": 0.01}], "variants": summaries,
            "effects": effects.effects_of(RUNS)}


def test_card_lists_variants_and_dense_models():
    text = card.card(report_of(ablation("--seeds", "0,1")))
    rows = [line for line in text.splitlines() if line.startswith("| 8 |") or line.startswith("| – |")]
    assert len(rows) == 5 and "| 2 of 2 / 2 of 2 |" in rows[0] and "dense, all" in rows[4]
    assert "| top-k | 2 → 4 | -0.2500 | 4 of 4 |" in text
    assert all(f"]({name}.svg)" in text for name in ("curves", "use", "effects"))


@pytest.mark.parametrize("name", ["curves", "effects", "use"])
def test_plots_are_small_and_reproducible(tmp_path, name):
    pytest.importorskip("matplotlib")
    from training.upcycling import plots

    dense = {"dense, feed-forward": [metrics(1.1, 1.0, 0.95)] * 2, "dense, all": [metrics(1.1, 1.0, 0.9)] * 2}

    def draw(path):
        if name == "curves":
            plots.draw_curves(path, RUNS, dense, 2048)
        elif name == "effects":
            plots.draw_effects(path, RUNS, dense)
        else:
            plots.draw_use(path, {variant: effects.summary_of([run]) for (variant, seed), run in RUNS.items() if seed == 0})
        return path.read_bytes()

    drawn = draw(tmp_path / "a.svg")
    assert drawn == draw(tmp_path / "b.svg") and 1000 < len(drawn) < 100_000


# ------------------------------------------------------------- programs ----

@pytest.fixture
def program(tmp_path):
    """program(script) → a file that runs the script with the shell."""
    def make(script):
        path = tmp_path / "moec"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path
    return make


def test_errors_of_moec_end_the_run(program, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from training.upcycling import runs

    (tmp_path / "out").mkdir()
    moec = program("echo 'error[upcycle.sizes] no' >&2; exit 2")
    run = next(run for run in ablation("--moec", moec).runs(tmp_path / "dense") if run.variant)
    with pytest.raises(Refused, match=r"(?s)upcycle .*exit code 2.*error\[upcycle.sizes\] no"):
        runs.upcycle(run, tmp_path / "dense", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    moec.chmod(0o644)
    with pytest.raises(Refused, match="moec cannot be run: Permission denied"):
        runs.upcycle(run, tmp_path / "dense", tmp_path / "out")


def test_ablation_starts_at_the_dense_loss(monkeypatch, tmp_path):
    for package in ("torch", "transformers", "matplotlib"):
        pytest.importorskip(package)
    moec = REPO / "build/release/frontends/moec"
    if not moec.is_file() or b"upcycle" not in subprocess.run([moec, "--help"], capture_output=True, check=False).stdout:
        pytest.skip("needs the release build of moec with upcycle")
    flags = ("--work {0}/work --out {0}/out --experts 4 --top-k 2 --shared 0,32 --router virtual --seeds 0,1 --jobs 1 "
             "--dense-steps 4 --steps 2 --expert-steps 2 --batch 2 --length 16").format(tmp_path).split()
    monkeypatch.setattr(sys, "argv", ["ablate_upcycling.py", *flags])
    assert ablate_upcycling.main() == 0
    report = json.loads((tmp_path / "out/results.json").read_text())
    assert [(entry["shared"], entry["summary"]["seeds"]) for entry in report["variants"]] == [(0, 2), (32, 2)]
    for entry in report["variants"]:  # the default start equals the dense model
        assert entry["summary"]["loss"]["untrained"] == pytest.approx(report["dense_model"]["loss"], abs=1e-4)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "README.md", "curves.svg", "effects.svg", "results.json", "use.svg"]
    assert str(tmp_path) not in (tmp_path / "out/results.json").read_text() + (tmp_path / "out/README.md").read_text()
    page = (tmp_path / "out/README.md").read_text()
    (tmp_path / "out/README.md").write_text(page.replace("# Ablation of upcycling", "# Mine") + "The end\n")
    monkeypatch.setattr(sys, "argv", ["ablate_upcycling.py", *flags, "--resume"])
    assert ablate_upcycling.main() == 0
    assert (tmp_path / "out/README.md").read_text() == page.replace("# Ablation of upcycling", "# Mine") + "The end\n"
    assert "| 4 | 2 | 32 |" in page


def test_rejects_a_page_without_markers(program, monkeypatch, capsys, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/README.md").write_text("mine\n")
    monkeypatch.setattr(sys, "argv", ["ablate_upcycling.py", "--moec", str(program("exit 0")), "--work",
                                      str(tmp_path / "work"), "--out", str(tmp_path / "out")])
    assert ablate_upcycling.main() == 2
    assert "must contain the lines" in capsys.readouterr().err and not (tmp_path / "work").exists()


def test_committed_pictures_are_small_and_undated():
    kept = sorted((REPO / "models/upcycling").rglob("*.svg"))
    assert len(kept) >= 3
    assert all(len(path.read_bytes()) < 100_000 and b"<dc:date>" not in path.read_bytes() for path in kept)
