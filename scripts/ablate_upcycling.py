#!/usr/bin/env python3
"""Compares options of upcycling a dense model: number of experts, top-k, shared experts, router initialisation.

    scripts/ablate_upcycling.py --moec build/release/frontends/moec --out models/upcycling

Trains a small dense byte model on generated texts. Upcycles it with `moec upcycle` for every seed and every combination
of --experts, --top-k, --shared (hidden units of the shared expert) and --router. Trains the results like
scripts/train_router.py: the routers alone for --steps, then experts and routers for --expert-steps. The dense model
continues training on the same batches, once with its feed-forward parts only and once with all weights. Takes at most
half an hour on two cores, with one training per core (--jobs).

Output: results.json (each run's measurements), curves.svg, effects.svg and use.svg, and the tables in README.md, between
the lines

    <!-- figures:begin -->
    <!-- figures:end -->

Trained models are in --work. --resume continues an interrupted run. Results do not depend on the number of jobs. Exits with
0; with 1 if a loss is not finite; with 2 if the input is invalid.

    pip install torch==2.13.0                           # first: this pin gives a CPU build
    pip install transformers safetensors numpy matplotlib
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from figures import BEGIN, END, replaced
from golden.progress import Progress
from golden.publish import REPO, staged, write_json
from golden.request import Refused
from train_router import DENSE_PARTS, NEEDED
from training.command import exit_code
from training.router.request import Phase, Settings, number, seeds_of
from training.router.run_folder import RunFolder
from training.upcycling.grid import variants_of

MEASUREMENTS = 5  # per training, in addition to the measurements at the ends of phases
NEW_PAGE = f"# Ablation of upcycling\n\n{BEGIN}\n{END}\n"
DENSE_NAMES = {"ffn": "dense, feed-forward", "all": "dense, all"}


def flags_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paths = {"--moec": (REPO / "build/release/frontends/moec", "the moec program"),
             "--out": (REPO / "models/upcycling", "folder of the results"),
             "--work": (REPO / "build/ablate_upcycling", "folder of the trained models")}
    for flag, (default, what) in paths.items():
        told = default.relative_to(REPO)
        parser.add_argument(flag, type=Path, default=default, help=f"{what} (default: {told})")
    for flag, default, what in (
            ("--experts", "8,16", "numbers of experts"), ("--top-k", "2,4", "experts per token"),
            ("--shared", "0,32", "hidden units of the shared expert"),
            ("--router", "virtual,random:0.02", "router initialisations, as in moec upcycle --router"),
            ("--granularity", "2", "experts per group"), ("--init", "virtual-group", "initialisation of experts"),
            ("--noise", "0", "standard deviation of noise on experts"), ("--seeds", "0,1,2", "seeds of upcycling and batches"),
            ("--dense-steps", "600", "steps of the dense model"), ("--steps", "60", "steps of phase 1"),
            ("--expert-steps", "140", "steps of phase 2"), ("--dense-lr", "0.004", "maximum learning rate of the dense model"),
            ("--lr", "0.03", "maximum learning rate of phase 1"),
            ("--expert-lr", "0.002", "maximum learning rate of phase 2"),
            ("--batch", "16", "windows per step"), ("--length", "128", "tokens per window"),
            ("--jobs", "2", "concurrent trainings, each on one core")):
        parser.add_argument(flag, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    parser.add_argument("--force", action="store_true", help="replace an earlier run")
    return parser.parse_args(arguments)


class Ablation:
    """A validated request: all runs by name, and their folders."""

    def __init__(self, flags):
        self.flags, self.seeds = flags, seeds_of(flags.seeds)
        self.variants, self.start = variants_of(flags)
        whole = {name: number(getattr(flags, name), f"--{name.replace('_', '-')}", int, 1)
                 for name in ("dense_steps", "steps", "expert_steps", "batch", "length", "jobs")}
        rates = {name: number(getattr(flags, name), f"--{name.replace('_', '-')}", strict=True)
                 for name in ("dense_lr", "lr", "expert_lr")}
        self.jobs, self.dense_steps = whole["jobs"], whole["dense_steps"]
        steps = whole["steps"] + whole["expert_steps"]
        self.settings = Settings(batch=whole["batch"], length=whole["length"], held_batches=3, save_every=steps,
                                 measure_every=max(1, steps // MEASUREMENTS))
        self.phases = (Phase("router", whole["steps"], rates["lr"], "router"),
                       Phase("experts", whole["expert_steps"], rates["expert_lr"], "experts"))
        self.dense_phase = Phase("dense", whole["dense_steps"], rates["dense_lr"], "all")
        self.dense_phases = {part: (Phase(part, steps, rates["expert_lr"], part),) for part in DENSE_PARTS}

    def request(self):
        """Returns all settings that affect the results."""
        names = ("experts", "top_k", "shared", "router", "granularity", "init", "noise")
        parts = ["dense", *(name for name, _, _ in self.named())]
        return {"parts": parts, **{name: getattr(self.flags, name) for name in names}, "seeds": self.seeds,
                "dense_steps": self.dense_steps, "dense_lr": self.dense_phase.rate,
                "phases": [vars(phase) for phase in self.phases], "settings": vars(self.settings)}

    def command(self):
        """Returns the command that reproduces the results: all flags of `request` whose values differ from the
        defaults."""
        defaults = vars(flags_of([]))
        changed = {name: value for name, value in vars(self.flags).items()
                   if value != defaults[name] and name not in ("moec", "out", "work", "jobs", "resume", "force")}
        words = [f"--{name.replace('_', '-')} {value}" for name, value in changed.items()]
        return " ".join(["scripts/ablate_upcycling.py", *words])

    def named(self):
        """Yields (name, variant or part of the dense model, seed) of every run that starts from the trained dense model."""
        for seed in self.seeds:
            for part in DENSE_PARTS:
                yield f"dense-{part}-{seed}", part, seed
            for variant in self.variants:
                yield f"{variant.name}-{seed}", variant, seed

    def runs(self, dense):
        """The Runs of `named` for the dense model in the folder."""
        from training.router.job import Job
        from training.upcycling.runs import Run

        for name, what, seed in self.named():
            of_dense = what in DENSE_PARTS
            phases = self.dense_phases[what] if of_dense else self.phases
            job = Job(dense, phases, self.settings, seed, dense=of_dense, keep=False)
            yield Run(name, job, self.flags.moec, self.start, None if of_dense else what)


def import_packages():
    from training.plots import pyplot

    try:
        import transformers  # noqa: F401
        from training.upcycling import runs
    except ImportError as error:
        raise Refused(f"training needs PyTorch and transformers: {error}\n  {NEEDED}") from error
    pyplot()
    return runs


def train_dense(ablation, folder, runs):
    """Trains the dense model; returns its folder and metrics."""
    from training.router.job import Job, train

    part = folder.part("dense")
    untrained = part.path / "untrained"
    if part.metrics() is None and not part.state.is_file():
        runs.write_untrained(untrained)
    settings = Settings(**{**vars(ablation.settings), "save_every": 200, "measure_every": 0})
    job = Job(untrained, (ablation.dense_phase,), settings, 0, dense=True)
    progress = Progress(ablation.dense_steps, unit="steps")
    return part.path / "model", train(part, job, runs.texts_of(settings.length), progress)


def train_all(ablation, folder, dense):
    """Runs all trainings in `jobs` processes; returns {name: metrics}."""
    from training.upcycling.runs import begin_process, train_run

    runs = list(ablation.runs(dense))
    progress, found = Progress(len(runs), unit="runs"), {}
    progress.begin("upcycled and dense")
    with ProcessPoolExecutor(ablation.jobs, get_context("spawn"), begin_process) as pool:
        waiting = {pool.submit(train_run, folder.part(run.name), run): run.name for run in runs}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                progress.step()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    progress.end()
    return {run.name: found[run.name] for run in runs}


def report_of(ablation, dense, found):
    """The contents of results.json."""
    import torch
    import transformers

    from golden.publish import versions
    from training.router.summary import last
    from training.upcycling import card, effects

    runs = {(what, seed): found[name] for name, what, seed in ablation.named() if what not in DENSE_PARTS}
    further = {DENSE_NAMES[part]: [found[f"dense-{part}-{seed}"] for seed in ablation.seeds] for part in DENSE_PARTS}
    summaries = {variant: effects.summary_of([runs[variant, seed] for seed in ablation.seeds])
                 for variant in ablation.variants}
    report = {
        "command": ablation.command(), "versions": versions(torch, transformers),
        "request": ablation.request(),
        "dense_model": {"parameters": dense["measured"][0]["parameters"], "loss": last(dense)["loss"]["mean"]},
        "dense": [card.dense_row(name, seeds) for name, seeds in further.items()],
        "variants": [{**vars(variant), "summary": summary} for variant, summary in summaries.items()],
        "effects": effects.effects_of(runs),
        "losses": {name: [[m["step"], m["loss"]["mean"]] for m in metrics["measured"]] for name, metrics in found.items()},
    }
    return report, runs, further, summaries


def page_with(out, tables):
    """Returns README.md of the results with these tables between its markers. Raises Refused if README.md has no
    markers."""
    readme = out / "README.md"
    page = replaced(readme.read_text(encoding="utf-8") if readme.is_file() else NEW_PAGE, tables)
    if page is None:
        raise Refused(f"{readme} must contain the lines {BEGIN} and {END} once each, in this order")
    return page


def publish(ablation, dense, found):
    """Writes either all files of --out or none."""
    from training.upcycling import card, plots

    report, runs, further, summaries = report_of(ablation, dense, found)
    page, out = page_with(ablation.flags.out, card.card(report)), ablation.flags.out
    with staged(out) as staging:
        write_json(staging / "results.json", report)
        (staging / "README.md").write_text(page, encoding="utf-8")
        plots.draw_curves(staging / "curves.svg", runs, further, ablation.settings.window())
        plots.draw_effects(staging / "effects.svg", runs, further)
        plots.draw_use(staging / "use.svg", summaries)


def run(flags):
    ablation = Ablation(flags)
    if not flags.moec.is_file():
        raise Refused(f"the program {flags.moec} does not exist: build it, or pass its path with --moec")
    page_with(flags.out, "")
    runs = import_packages()
    folder = RunFolder(flags.work, ablation.request(), flags.resume, flags.force)
    runs.begin_process()
    dense, metrics = train_dense(ablation, folder, runs)
    publish(ablation, metrics, train_all(ablation, folder, dense))
    return 0


def main():
    flags = flags_of()
    return exit_code(lambda: run(flags))


if __name__ == "__main__":
    sys.exit(main())
