"""What all trainings share around their steps: flags, the facts of a run, the report on the model."""

import argparse
import sys
from pathlib import Path

import torch
import transformers

from golden.publish import REPO, sha256, versions, write_json


def flags_of(description, model, batch, lr):
    """A parser with the flags of all trainings."""
    ap = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, default=REPO / "models" / model,
                    help=f"where to write (default: models/{model})")
    ap.add_argument("--batch", type=int, default=batch, help=f"texts in a step (default: {batch})")
    ap.add_argument("--lr", type=float, default=lr, help=f"largest learning rate (default: {lr})")
    ap.add_argument("--seed", type=int, default=0, help="of weights and texts (default: 0)")
    return ap


def facts_of_run(script):
    return {"command": " ".join([script, *sys.argv[1:]]), "versions": versions(torch, transformers)}


def provenance_lines(metrics):
    """The lines of a model card that say what made the model."""
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
