#!/usr/bin/env python3
"""Measures ways to make experts of a dense model: numbers of experts, top-k, shared experts, starts of the router.

    scripts/ablate_upcycling.py --moec build/release/frontends/moec --out models/upcycling

Trains a small dense model of bytes on generated texts, upcycles it with `moec upcycle` in every combination of the
axes --experts, --top-k, --shared (hidden units of the shared expert) and --router, with each seed, and trains the
results as scripts/train_router.py does: the routers alone for --steps, then experts and routers for --expert-steps.
The dense model is trained on for the same batches, by its feed-forward parts alone and by all weights. At most half an
hour on two cores, each of which runs one training (--jobs).

Output: results.json (each run's measurements), curves.svg, effects.svg and use.svg, and the tables in README.md,
between its lines

    <!-- figures:begin -->
    <!-- figures:end -->

What is trained lies in --work. A run that was interrupted goes on with --resume; the results do not depend on the
number of jobs. Exits with 0, with 1 when a loss is not finite, with 2 when the input is wrong.

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

MEASUREMENTS = 5  # in a training, and where a phase ends
NEW_PAGE = f"# Ablation of upcycling\n\n{BEGIN}\n{END}\n"
DENSE_NAMES = {"ffn": "dense, feed-forward", "all": "dense, all"}


def flags_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paths = {"--moec": (REPO / "build/release/frontends/moec", "the program"),
             "--out": (REPO / "models/upcycling", "folder of the results"),
             "--work": (REPO / "build/ablate_upcycling", "folder of the trainings")}
    for flag, (default, what) in paths.items():
        told = default.relative_to(REPO)
        parser.add_argument(flag, type=Path, default=default, help=f"{what} (default: {told})")
    for flag, default, what in (
            ("--experts", "8,16", "numbers of experts"), ("--top-k", "2,4", "experts of a token"),
            ("--shared", "0,32", "hidden units of the shared expert"),
            ("--router", "virtual,random:0.02", "starts of the router, as moec upcycle --router has them"),
            ("--granularity", "2", "experts of a group"), ("--init", "virtual-group", "start of the experts"),
            ("--noise", "0", "deviation of what is added to experts"), ("--seeds", "0,1,2", "of upcycling and batches"),
            ("--dense-steps", "600", "steps of the dense model"), ("--steps", "60", "steps of phase 1"),
            ("--expert-steps", "140", "steps of phase 2"), ("--dense-lr", "0.004", "largest rate of the dense model"),
            ("--lr", "0.03", "largest rate of phase 1"), ("--expert-lr", "0.002", "largest rate of phase 2"),
            ("--batch", "16", "windows in a step"), ("--length", "128", "tokens of a window"),
            ("--jobs", "2", "trainings at the same time, each on one core")):
        parser.add_argument(flag, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--force", action="store_true", help="replace an earlier run")
    return parser.parse_args(arguments)


class Ablation:
    """A checked request: all runs by name, and the folders they use."""

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
        """What decides the results."""
        names = ("experts", "top_k", "shared", "router", "granularity", "init", "noise")
        parts = ["dense", *(name for name, _, _ in self.named())]
        return {"parts": parts, **{name: getattr(self.flags, name) for name in names}, "seeds": self.seeds,
                "dense_steps": self.dense_steps, "dense_lr": self.dense_phase.rate,
                "phases": [vars(phase) for phase in self.phases], "settings": vars(self.settings)}

    def command(self):
        """The command that gives the same results: the flags of `request` that are not the defaults."""
        defaults = vars(flags_of([]))
        changed = {name: value for name, value in vars(self.flags).items()
                   if value != defaults[name] and name not in ("moec", "out", "work", "jobs", "resume", "force")}
        words = [f"--{name.replace('_', '-')} {value}" for name, value in changed.items()]
        return " ".join(["scripts/ablate_upcycling.py", *words])

    def named(self):
        """(name, variant or part of the dense model, seed) of every run that starts from the trained dense model."""
        for seed in self.seeds:
            for part in DENSE_PARTS:
                yield f"dense-{part}-{seed}", part, seed
            for variant in self.variants:
                yield f"{variant.name}-{seed}", variant, seed

    def runs(self, dense):
        """The Runs of `named`, of the dense model in that folder."""
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
        raise Refused(f"models are trained by PyTorch and transformers: {error}\n  {NEEDED}") from error
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
    """{name: metrics} of all runs, by as many processes as there are jobs."""
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
    """Everything that results.json says."""
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
    """README.md of the results with these tables between its marks. Raises Refused where it has no such marks."""
    readme = out / "README.md"
    page = replaced(readme.read_text(encoding="utf-8") if readme.is_file() else NEW_PAGE, tables)
    if page is None:
        raise Refused(f"{readme}: the lines {BEGIN} and {END} must stand there once each, in this order")
    return page


def publish(ablation, dense, found):
    """Writes all files of --out, or none."""
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
        raise Refused(f"there is no program {flags.moec}; build it, or name it with --moec")
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
