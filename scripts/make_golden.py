#!/usr/bin/env python3
"""Make the golden results that the C++ tests compare with.

The reference is the real transformers implementation, run in float32 with eager
attention on exactly the weights that lie on disk. For each case the script writes

    tests/golden/<case>/golden.json          what was run, digests, greedy tokens
    tests/golden/<case>/golden.safetensors   the intermediate values, F32 and I32

and, except for tinymoe and tinytagger (whose models are in models/), a tiny random checkpoint next
to them: config.json and *.safetensors. What these store in few bits ("stored" in golden.json: fp8, mxfp4 or
compressed-tensors) transformers' own decoders read, to float32.

Tensors are named <step>.<what>. Steps are `prefill` (T tokens at once) and `decode0` to
`decode3` (one token each, on transformers' cache):

    tokens I32 [T]            embed [T,d] (as layer 0 gets it;     logits [T,V]
                              zaya: the rows of the embedding)
    Lnn.attn_out [T,d]        hidden state after attention, residual included
    Lnn.ffn_out [T,d]         layer output, residual included
    Lnn.router_logits [T,E]   Lnn.router_scores [T,E] (softmax or sigmoid over all experts)
    Lnn.experts I32 [T,k]     Lnn.weights [T,k] (as multiplied into the expert outputs)
    Lnn.choice_scores [T,E]   what experts are chosen by, where these are not the logits: score
                              and correction bias, -10000 in the groups that cannot be chosen
    Lnn.router_state [T,r]    zaya: what the router hands to that of the next layer

A model that reads a text as a whole and labels its tokens has one step, of fewer tokens; its logits
are those of the labels, and it has neither decode steps nor caches nor greedy text.

The router tensors exist for the MoE layers only. `Lnn.k_cache` and `Lnn.v_cache`
[K,S,h], without a step, hold every row that was handed to the cache (keys after norm and
rotation), also those that a sliding layer has dropped by then. Latent attention has the latent
there, and the keys and values of each head in `Lnn.k_heads` and `Lnn.v_heads`. zaya has E + 1 logits,
of which the last is chosen with weight 0, and `Lnn.history` [S,C]: the projected queries, keys and
delayed values (these without bias) of every token.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy xxhash
    pip install accelerate compressed-tensors    # for FP8 and INT4 in files
    scripts/make_golden.py [--family mixtral] [--case mixtral_a] [--out tests/golden]
"""

import argparse
import json
from pathlib import Path

import torch
import transformers

from golden.cases import CASES, TAGGERS
from golden.checkpoint import write_checkpoint
from golden.publish import REPO, staged
from golden.reference import load
from golden.texts import run_random, run_random_labels, run_tinymoe, run_tinytagger
from golden.write import write_golden

MODELS = REPO / "models"
CLEARED = (".safetensors", ".json")  # what a case's folder has of an earlier run is removed


def make_random(case, out):
    with staged(out / case, CLEARED) as folder:
        write_checkpoint(case, CASES[case], folder)
        model = load(folder)
        run = (run_random_labels if CASES[case]["family"] in TAGGERS else run_random)(case, model)
        write_golden(case, folder, folder, model, run)


def make_tinymoe(out):
    checkpoint = MODELS / "tinymoe"
    model = load(checkpoint)
    run = run_tinymoe(model)
    with staged(out / "tinymoe", CLEARED) as folder:
        write_golden("tinymoe", folder, checkpoint, model, run)
    print("  prompt", repr(bytes(run.greedy.prompt)), "continues", repr(bytes(run.greedy.tokens)))


def make_tinytagger(out):
    checkpoint = MODELS / "tinytagger"
    model = load(checkpoint)
    texts = json.loads((checkpoint / "heldout.json").read_text())["texts"]
    run = run_tinytagger(model, [each["text"].encode() for each in texts])
    with staged(out / "tinytagger", CLEARED) as folder:
        write_golden("tinytagger", folder, checkpoint, model, run)
    print("  text", repr(bytes(run.steps[0]["tokens"].tolist())))


TRAINED = {"tinymoe": make_tinymoe, "tinytagger": make_tinytagger}


def parse_flags():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--family", help="only the random checkpoints of one family: "
                    + ", ".join(sorted({spec["family"] for spec in CASES.values()})))
    ap.add_argument("--case", choices=[*TRAINED, *CASES], help="only this case")
    ap.add_argument("--out", type=Path, default=REPO / "tests" / "golden")
    return ap.parse_args()


def main():
    flags = parse_flags()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # one order of summation
    for case, spec in CASES.items():
        if flags.case in (None, case) and flags.family in (None, spec["family"]):
            make_random(case, flags.out)
    for case, make in TRAINED.items():
        if flags.case == case or (flags.case is None and flags.family is None):
            make(flags.out)


if __name__ == "__main__":
    main()
