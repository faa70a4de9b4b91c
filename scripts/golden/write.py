"""Writes golden.json and golden.safetensors."""

import importlib
import json
import math
import os
import re

import numpy as np
import torch
import transformers
import xxhash
from safetensors.numpy import save_file

from golden.gaps import order_gap, router_gap
from golden.publish import sha256, versions
from golden.request import gguf_file, weight_files

FORMAT = "moec-golden/1"
DECODERS = {"compressed-tensors": "compressed_tensors"}  # quant_method → the package that decodes it for transformers


def step_names(steps):
    return ["prefill", *[f"decode{i}" for i in range(len(steps) - 1)]]


def arrays_of(run):
    """Returns {name: array in F32 or I32}."""
    tensors = {f"{name}.{what}": t for name, step in zip(step_names(run.steps), run.steps) for what, t in step.items()}
    tensors.update(run.caches)
    arrays = {}
    for name, t in tensors.items():
        arrays[name] = np.ascontiguousarray(t.numpy().astype(np.float32 if t.is_floating_point() else np.int32))
        assert np.isfinite(arrays[name]).all(), name
    return arrays


def list_steps(steps):
    listed, at = [], 0
    for name, step in zip(step_names(steps), steps):
        listed.append({"name": name, "position": at, "tokens": len(step["tokens"])})
        at += len(step["tokens"])
    return listed


def digests(checkpoint, folder):
    config = checkpoint / "config.json"
    has_config = gguf_file(checkpoint) is None
    return {
        "weights_sha256": {path.name: sha256(path) for path in weight_files(checkpoint)},
        **({"config_sha256": sha256(config)} if has_config else {}),
        # as in the manifest of an export (empty for GGUF files): moec validate compares the two digests
        "config_digest": xxhash.xxh3_128_hexdigest(config.read_bytes()) if has_config else "",
        "golden_sha256": sha256(folder / "golden.safetensors"),
    }


def storage(checkpoint):
    """Returns the quant_method of a checkpoint with quantized matrices, otherwise None."""
    if gguf_file(checkpoint):
        return None
    return json.loads((checkpoint / "config.json").read_text()).get("quantization_config", {}).get("quant_method")


def makers(stored):
    """Returns the versions of the libraries that computed the values."""
    return [torch, transformers] + ([importlib.import_module(DECODERS[stored])] if stored in DECODERS else [])


def checkpoint_path(checkpoint, folder, home):
    """Returns the checkpoint's path for golden.json, relative to `home`, the folder of the golden."""
    return "." if checkpoint == folder else os.path.relpath(checkpoint.resolve(), home.resolve())


def describe(home, folder, checkpoint, model, run, top_k=""):
    """Returns the content of golden.json. `top_k` is the number of experts per token if it differs from the config."""
    stored = storage(checkpoint)
    info = {
        "format": FORMAT,
        "case": home.name,
        "family": model.config.model_type,
        "checkpoint": checkpoint_path(checkpoint, folder, home),
        **({"stored": stored} if stored else {}),
        **({"top_k": top_k} if top_k else {}),
        **digests(checkpoint, folder),
        "made_with": {**versions(*makers(stored)), "script": "scripts/make_golden.py"},
        "steps": list_steps(run.steps),
        "moe_layers": model.moec_capture.moe_layers,
        "min_router_gap": finite(router_gap(run.steps)),
        "min_router_order_gap": finite(order_gap(run.steps)),
    }
    if run.greedy:
        info["decode_vs_full_max_abs"] = float(f"{run.worst:.3g}")
        info["greedy"] = {"prompt": run.greedy.prompt, "tokens": run.greedy.tokens, "min_gap": round(run.greedy.gap, 6)}
    return info


def finite(gap):
    """Returns the gap as stored in golden.json; None if it is infinite, because there was no choice."""
    return round(gap, 6) if math.isfinite(gap) else None


def with_short_lists(text):
    """Returns the JSON text with each list of numbers on one line."""
    return re.sub(r"\[[\d,\s]*\]",
                  lambda found: re.sub(r"\s+", " ", found.group()).replace("[ ", "[").replace(" ]", "]"), text)


def write_golden(home, folder, checkpoint, model, run, top_k=""):
    """Writes the golden to `folder`, from which the caller moves the files to `home`. The checkpoint may be in `folder`
    itself. Prints a line about the golden."""
    save_file(arrays_of(run), folder / "golden.safetensors", metadata={"format": FORMAT})
    info = describe(home, folder, checkpoint, model, run, top_k)
    (folder / "golden.json").write_text(with_short_lists(json.dumps(info, indent=1)) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    line = (f"{home.name}: {size / 1024:.0f} KiB, router gap {info['min_router_gap']}, "
            f"order gap {info['min_router_order_gap']}")
    if run.greedy:
        line += f", greedy gap {info['greedy']['min_gap']}, decode vs full {run.worst:.2g}"
    print(line, flush=True)
