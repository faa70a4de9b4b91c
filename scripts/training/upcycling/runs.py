"""Trainings of an ablation in separate processes: each upcycles the dense model, trains the result and stores its
metrics."""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from golden.request import Refused
from training.byte_tokenizer import write_tokenizer
from training.router import texts as router_texts
from training.router.job import Job, quieten, train
from training.upcycling.grid import DENSE, Variant

TEXTS = {}  # cache of this process, by window length, because texts take seconds to generate


@dataclasses.dataclass(frozen=True)
class Run:
    """A training of the ablation: of a `variant` that `moec` makes from the dense model, or of the dense model if
    `variant` is None."""

    name: str
    job: Job
    moec: Path
    start: object
    variant: Variant | None = None


def texts_of(length):
    if length not in TEXTS:
        TEXTS[length] = router_texts.Texts(router_texts.generated(), list, length)
    return TEXTS[length]


def begin_process():
    """Limits PyTorch to one thread: for such small models, synchronisation costs more than a second thread saves."""
    torch.set_num_threads(1)
    quieten()


def write_untrained(folder):
    """Writes the dense model with new weights, and its byte tokenizer."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**DENSE))
    with torch.no_grad():  # small initial residual branches, as in depth-scaled initialisation
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.5)
            layer.mlp.down_proj.weight.mul_(0.5)
    model.save_pretrained(folder)
    write_tokenizer(folder)


def upcycle(run, dense, out):
    """Makes a run's checkpoint with moec. Raises Refused with moec's message."""
    shutil.rmtree(out, ignore_errors=True)
    command = run.variant.command(run.moec, dense, out, run.start, run.job.seed)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"{run.moec} cannot run: {error.strerror}: build it, or pass its path with --moec") from error
    if done.returncode:
        raise Refused(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stderr or done.stdout).strip()}")


def train_run(part, run):
    """Trains a run from its saved state, removes its checkpoint, and returns its metrics."""
    if (done := part.metrics()) is not None:
        return done
    if run.variant is None:
        return train(part, run.job, texts_of(run.job.settings.length))
    made = part.path / "upcycled"
    upcycle(run, run.job.checkpoint, made)
    metrics = train(part, dataclasses.replace(run.job, checkpoint=made), texts_of(run.job.settings.length))
    shutil.rmtree(made)
    return metrics
