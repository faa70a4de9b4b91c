#!/usr/bin/env python3
"""Trains the routers of an MoE checkpoint, such as one that `moec upcycle` made from a dense model.

    moec upcycle DENSE --out MOE --experts 8 --top-k 2 --init drop:0.5 --router random:0.02
    scripts/train_router.py MOE --out OUT --dense DENSE --steps 200 --expert-steps 200

Phase 1 (--steps) trains the routers alone; everything else is frozen. Phase 2 (--expert-steps) trains routers, routed and
shared experts with the learning rate --expert-lr and gradient checkpointing. The loss is the cross entropy of the next token
+ --balance x balance loss (Switch and GShard: E * sum over experts of token share x mean score, with gradients through the
scores) + --z x z-loss (mean logsumexp(logits)^2). For architectures with correction biases (such as deepseek_v3),
--bias-rate moves the biases by this step towards an even load, without a gradient; use it with --balance 0 or a small value.

CHECKPOINT is a folder with config.json and *.safetensors, in float. The model must be an MoE in transformers that
generates text, with routers that return (logits, weights, experts): every MoE family of moec except zaya and
ernie4_5_vl_moe_text qualifies. Text comes from three generators (arithmetic, JSON records, made-up sentences), or from
the UTF-8 files of --text, whose last tenths are held out.

Each seed of --seeds has different batches and, with --redraw STD, new router matrices. --dense trains the checkpoint's dense
model on the same batches for the same number of steps, with the rate --expert-lr: once its feed-forward layers only, like
phase 2, and once all weights.

Output: OUT/metrics.json (all measurements and settings), OUT/curves.svg, OUT/use.svg, and per seed OUT/seedN/model, the
trained checkpoint. The last measurement reads these files back. Losses are on held-out text, in nats per token. The
Gini coefficient and the share of the least used expert are those of the worst layer. The drop rate is the share of a
batch that experts with capacity --capacity would drop; nothing is actually dropped. --resume continues an interrupted
training; the weights are the same on the same machine with the same number of threads.

Exits with 0 if every seed ends with a Gini coefficient below 0.3, no expert below a fifth of the even share, and a loss below
that of its untrained router; with 1 otherwise, or if a loss is not finite; with 2 if the input is invalid.

    pip install torch==2.13.0                           # first: this pin gives a CPU build
    pip install transformers safetensors numpy matplotlib
"""

import argparse
import sys
from pathlib import Path

from golden.progress import Progress
from golden.request import Refused
from training.command import exit_code
from training.router import summary
from training.router.checkpoint import check_checkpoint, check_positions, encoder_of, text_config
from training.router.request import Phase, number, phases_of, seeds_of, settings_of
from training.router.run_folder import RunFolder, write_json_whole
from training.router.texts import Texts, files_of, generated

NEEDED = "pip install torch==2.13.0 && pip install transformers safetensors numpy matplotlib"
DENSE_PARTS = ("ffn", "all")
MEASUREMENTS = 10  # per training, unless --measure-every is given


def flags_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="output folder")
    parser.add_argument("--dense", type=Path, metavar="DIR", help="dense checkpoint to compare with")
    parser.add_argument("--text", type=Path, metavar="DIR", help="folder of texts (default: three generators)")
    parser.add_argument("--seeds", default="0,1,2", help="seeds of the batches (default: 0,1,2)")
    parser.add_argument("--redraw", metavar="STD", help="redraw the routers per seed, with this standard deviation")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted training")
    parser.add_argument("--force", action="store_true", help="replace an earlier training")
    parser.add_argument("--no-plots", action="store_true", help="write no plots, so that matplotlib is not required")
    parser.add_argument("--threads", default="2", help="threads of PyTorch (default: 2)")
    add_training_flags(parser)
    return parser.parse_args(arguments)


def add_training_flags(parser):
    """Adds the numeric flags. training.router.request parses their values, so that invalid values are rejected like
    other input."""
    for flag, default, what in (
            ("--steps", "200", "steps of phase 1"), ("--expert-steps", "0", "steps of phase 2"),
            ("--lr", "0.01", "maximum learning rate of phase 1"), ("--expert-lr", "0.001", "maximum learning rate of phase 2"),
            ("--batch", "16", "windows per step"), ("--length", "256", "tokens per window"),
            ("--balance", "0.01", "factor of the balance loss"), ("--z", "0.001", "factor of the z-loss"),
            ("--bias-rate", "0", "step of the correction biases"), ("--capacity", "1.25", "capacity for the drop rate"),
            ("--save-every", "50", "steps between saved states"),
            ("--measure-every", None, f"steps between measurements (default: a {MEASUREMENTS}th of all)"),
            ("--held-batches", "8", "batches of held-out text per domain")):
        default_told = "" if default is None else f" (default: {default})"
        parser.add_argument(flag, default=default, metavar="N", help=what + default_told)


def checked(flags):
    """Returns (seeds, phases, settings, standard deviation of new routers). Raises Refused."""
    phases = phases_of(flags)
    if flags.measure_every is None:
        flags.measure_every = str(max(1, sum(phase.steps for phase in phases) // MEASUREMENTS))
    redrawn = None if flags.redraw is None else number(flags.redraw, "--redraw")
    number(flags.threads, "--threads", int, 1)
    return seeds_of(flags.seeds), phases, settings_of(flags), redrawn


def import_packages(flags):
    """Imports the packages for training and plots before computing anything."""
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise Refused(f"training needs PyTorch and transformers: {error}\n  {NEEDED}") from error
    from training.router.job import quieten

    quieten()
    torch.set_num_threads(int(flags.threads))
    if not flags.no_plots:
        from training.plots import pyplot

        pyplot()


def jobs_of(flags, seeds, phases, settings, redrawn):
    """Returns {name of a part: Job}: first the seeds, then the dense model's jobs."""
    from training.router.job import Job

    jobs = {f"seed{seed}": Job(flags.checkpoint, tuple(phases), settings, seed, redrawn) for seed in seeds}
    if flags.dense:
        steps, rate = sum(phase.steps for phase in phases), number(flags.expert_lr, "--expert-lr")
        for part in DENSE_PARTS:
            jobs[f"dense-{part}"] = Job(flags.dense, (Phase(part, steps, rate, part),), settings, seeds[0], dense=True,
                                        keep=False)
    return jobs


def texts_of(flags, settings):
    domains = files_of(flags.text) if flags.text else generated()
    return Texts(domains, encoder_of(flags.checkpoint, check_checkpoint(flags.checkpoint)), settings.length)


def check_checkpoints(flags, settings):
    configs = [check_checkpoint(folder) for folder in (flags.checkpoint, flags.dense) if folder]
    for config in configs:
        check_positions(config, settings)
    if len({text_config(config).get("vocab_size") for config in configs}) > 1:
        raise Refused(f"the vocabularies of {flags.dense} and {flags.checkpoint} differ")


def request_of(flags, jobs):
    """All settings that affect the results, for RunFolder."""
    job = next(iter(jobs.values()))
    named = {name: str(path.resolve()) for name in ("checkpoint", "dense", "text") if (path := getattr(flags, name))}
    return {"parts": list(jobs), **named, "redraw": job.redraw, "threads": flags.threads,
            "phases": [vars(phase) for phase in job.phases], "settings": vars(job.settings)}


def train_all(flags, jobs, texts, folder):
    from training.router.job import train

    found = {}
    for name, job in jobs.items():
        progress = Progress(sum(phase.steps for phase in job.phases), unit="steps")
        found[name] = train(folder.part(name), job, texts, progress)
    return found


def report(flags, found, request, settings):
    """Writes metrics and plots, and prints the table. Returns True if all seeds meet the criteria."""
    from training.run import facts_of_run

    seeds = {name: metrics for name, metrics in found.items() if name.startswith("seed")}
    dense = {name: metrics for name, metrics in found.items() if name not in seeds}
    verdicts = {name: summary.verdict(metrics) for name, metrics in seeds.items()}
    write_json_whole(flags.out / "metrics.json", {**facts_of_run("scripts/train_router.py"), "phases": request["phases"],
                                                  "settings": request["settings"], "verdicts": verdicts,
                                                  "trainings": found})
    if not flags.no_plots:
        from training.router.plots import draw_curves, draw_use

        draw_curves(flags.out / "curves.svg", seeds, dense, settings.window())
        draw_use(flags.out / "use.svg", seeds)
    print(summary.table(seeds, dense))
    for name, criteria in verdicts.items():
        print(f"{name}: " + "; ".join(f"{what}: {'met' if met else 'NOT MET'}" for what, met in criteria.items()))
    return all(all(criteria.values()) for criteria in verdicts.values())


def run(flags):
    seeds, phases, settings, redrawn = checked(flags)
    check_checkpoints(flags, settings)
    import_packages(flags)
    jobs = jobs_of(flags, seeds, phases, settings, redrawn)
    texts = texts_of(flags, settings)
    request = request_of(flags, jobs)
    folder = RunFolder(flags.out, request, flags.resume, flags.force)
    return 0 if report(flags, train_all(flags, jobs, texts, folder), request, settings) else 1


def main():
    flags = flags_of()
    return exit_code(lambda: run(flags))


if __name__ == "__main__":
    sys.exit(main())
