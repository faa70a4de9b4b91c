"""One training: loads a checkpoint, trains it in phases, stores it, reads it back and measures it."""

import dataclasses
import json
import shutil
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM

from golden.checkpoint import kept_wide
from golden.publish import staged
from golden.request import Refused
from training.router.checkpoint import TOKENIZER_FILES, check_checkpoint
from training.router.measures import measure
from training.router.routers import Watch, check_biases, find_routers, redraw
from training.router.trainer import Trainer

@dataclasses.dataclass(frozen=True)
class Job:
    """A training request: checkpoint folder, phases, settings, seed of the batches. `redraw` is the standard deviation for
    redrawing the routers first, or None; `dense`: the model has no routers; `keep`: store the trained model."""

    checkpoint: Path
    phases: tuple
    settings: object
    seed: int
    redraw: float | None = None
    dense: bool = False
    keep: bool = True


def load_model(folder):
    """transformers' model in float32. Raises Refused if a tensor is missing, because transformers would initialise it
    randomly."""
    try:
        model, told = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    except Exception as error:  # transformers raises many types of exceptions
        raise Refused(f"transformers cannot load {folder}: {type(error).__name__}: {error}") from error
    wrong = sorted(told["missing_keys"]) or sorted(map(str, told["mismatched_keys"]))
    if wrong:
        raise Refused(f"{folder} lacks {wrong[0]}, or its shape is wrong ({len(wrong)} such tensors)")
    return model


def stored_type(config):
    name = config.get("dtype") or config.get("torch_dtype") or "float32"
    return getattr(torch, name)


def store(model, job, folder):
    """Writes the trained model in the checkpoint's types, with the checkpoint's tokenizer."""
    family, dtype = model.config.get_text_config().model_type, stored_type(check_checkpoint(job.checkpoint))
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and not kept_wide(name, family):
            tensor.data = tensor.data.to(dtype)
    model.config.dtype = dtype
    with staged(folder) as staging:
        model.save_pretrained(staging)
        for name in TOKENIZER_FILES:
            if (job.checkpoint / name).is_file():
                shutil.copyfile(job.checkpoint / name, staging / name)


def trainer_of(job, texts):
    model = load_model(job.checkpoint)
    routers = [] if job.dense else find_routers(model)
    if job.settings.bias_rate:
        check_biases(routers)
    if job.redraw is not None:
        redraw(routers, job.redraw, job.seed)
    return Trainer(model, routers, texts, job.phases, job.settings, job.seed)


def train(part, job, texts, progress=None):
    """Trains a part of a run from its saved state; returns its metrics."""
    if (done := part.metrics()) is not None:
        return done
    trainer = trainer_of(job, texts)
    if part.state.is_file():
        trainer.load(part)
    if progress:
        progress.begin(part.path.name, trainer.total)
    trainer.run(part, progress)
    metrics = {"seed": job.seed, "routers": [router.name for router in trainer.routers],
               "score": trainer.watch.score, "history": trainer.history, "measured": trainer.measured}
    if job.keep:
        store(trainer.model, job, part.path / "model")
        metrics["stored"] = measure_stored(part.path / "model", job, texts)
    part.finish(metrics)
    if progress:
        progress.end()
    return json.loads(json.dumps(metrics))


def measure_stored(folder, job, texts):
    model = load_model(folder)
    return measure(model, Watch(model, [] if job.dense else find_routers(model)), texts, job.settings)


def quieten():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
