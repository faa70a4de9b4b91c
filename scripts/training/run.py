"""Common parts of all trainings: flags, facts of a run, report on the model."""

import argparse
import sys
from pathlib import Path

import torch
import transformers

from golden.publish import REPO, sha256, versions, write_json


def flags_of(description, model, batch, lr):
    """A parser with the common flags of all trainings."""
    ap = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, default=REPO / "models" / model,
                    help=f"output folder (default: models/{model})")
    ap.add_argument("--batch", type=int, default=batch, help=f"texts per step (default: {batch})")
    ap.add_argument("--lr", type=float, default=lr, help=f"maximum learning rate (default: {lr})")
    ap.add_argument("--seed", type=int, default=0, help="seed of weights and texts (default: 0)")
    return ap


def facts_of_run(script):
    return {"command": " ".join([script, *sys.argv[1:]]), "versions": versions(torch, transformers)}


def provenance_lines(metrics):
    """Lines of a model card on the origin of the model."""
    made_with = metrics["versions"]
    return [
        f"- Versions: torch {made_with['torch']}, transformers {made_with['transformers']}, "
        f"Python {made_with['python']}.",
        f"- Command: `{metrics['command']}`",
    ]


def write_report(folder, metrics, card):
    """Writes metrics.json and README.md of the model in the folder. Adds the digest of its weights to the metrics."""
    metrics["weights_sha256"] = sha256(folder / "model.safetensors")
    write_json(folder / "metrics.json", metrics)
    (folder / "README.md").write_text(card(metrics), encoding="utf-8")
