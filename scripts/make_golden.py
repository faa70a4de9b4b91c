#!/usr/bin/env python3
"""Makes goldens: PyTorch's results for a checkpoint, the reference of `moec validate OUT --golden DIR`.

For your own checkpoint:

    scripts/make_golden.py --checkpoint DIR --prompt TEXT --out GOLDEN
    scripts/make_golden.py --checkpoint DIR --prompt-tokens 17,4,9 --decode 4 --out GOLDEN
    scripts/make_golden.py --checkpoint FILE.gguf --prompt TEXT --out GOLDEN
    moec export DIR --out OUT && moec validate OUT --golden GOLDEN

DIR is a folder with config.json and *.safetensors in the Hugging Face layout, of a family that moec supports. The
script reads the weights of one layer at a time from mapped files, converts them to float32, and releases them after
use. Peak memory is one layer in float32, up to the same size again while its experts are merged, and the activations.
Each pass reads all weights once: one pass for the prompt, one per decode step, and one over all tokens to check these
steps. transformers decodes weights in FP8, MXFP4 and INT4. A GGUF file of an architecture that transformers supports is
loaded completely; the gguf package decodes its blocks.

    --prompt TEXT          text, encoded by the checkpoint's tokenizer (transformers' AutoTokenizer)
    --prompt-tokens LIST   token ids; a dozen or two are enough, and each comparison costs more with each token
    --decode N             decode steps after the prompt, each fed with the reference's greedy token (default: 4)
    --decode-tokens LIST   decode steps fed with these tokens instead; the golden then has no greedy text
    --top-k K              experts per token, for variants of `moec export --top-k`: 1, or 'L0-3:1;L4-:2'
    --whole                load the whole model at once, to check the layer-by-layer mode

Without --checkpoint, the script makes the goldens of the tests, tests/golden/<case>, each with a tiny random checkpoint
(config.json and *.safetensors), except for tinymoe and tinytagger, whose models are in models/. If a checkpoint stores
quantized matrices ("stored" in golden.json), transformers' decoders convert them to float32.

    scripts/make_golden.py [--family mixtral] [--case mixtral_a] [--out tests/golden]

The reference is transformers' implementation in float32 with eager attention, on exactly the weights on disk.
tests/golden/README.md describes golden.json and golden.safetensors. Required packages:

    pip install torch==2.13.0                    # first: this pin gives a CPU build
    pip install transformers==5.24.0 safetensors numpy xxhash
    pip install accelerate compressed-tensors    # for weights stored in FP8 and INT4
    pip install gguf accelerate                  # for GGUF files
"""

import argparse
import sys
from pathlib import Path

from golden.publish import REPO
from golden.request import Refused, request_of

NEEDED = "pip install torch==2.13.0 && pip install transformers==5.24.0 safetensors numpy xxhash"


def flags_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = parser.add_argument_group("your own checkpoint")
    own.add_argument("--checkpoint", type=Path, metavar="DIR",
                     help="folder with config.json and *.safetensors, or a GGUF file")
    prompt = own.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="text to run")
    prompt.add_argument("--prompt-tokens", metavar="LIST", help="token ids to run, such as 17,4,9")
    decode = own.add_mutually_exclusive_group()
    decode.add_argument("--decode", type=int, metavar="N", help="greedy decode steps (default: 4)")
    decode.add_argument("--decode-tokens", metavar="LIST", help="token ids of the decode steps")
    own.add_argument("--top-k", metavar="K", help="experts per token instead of the checkpoint's number: 1, or by layer "
                     "'L0-3:1;L4-:2' (for variants of moec export --top-k)")
    own.add_argument("--whole", action="store_true", help="load the whole model at once")
    cases = parser.add_argument_group("the goldens of the tests")
    cases.add_argument("--family", help="make only the random checkpoints of one family")
    cases.add_argument("--case", help="make only this case")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="output folder (default without --checkpoint: tests/golden)")
    flags = parser.parse_args(arguments)
    check_flags(parser, flags)
    return flags


def check_flags(parser, flags):
    if flags.checkpoint is None:
        for name in ("prompt", "prompt_tokens", "decode", "decode_tokens", "top_k"):
            if getattr(flags, name) is not None:
                parser.error(f"--{name.replace('_', '-')} needs --checkpoint")
        if flags.whole:
            parser.error("--whole needs --checkpoint")
        flags.out = flags.out or REPO / "tests" / "golden"
        return
    if flags.family or flags.case:
        parser.error("--family and --case select checkpoints of the tests: omit them with --checkpoint")
    if flags.prompt is None and flags.prompt_tokens is None:
        parser.error("--checkpoint needs --prompt TEXT or --prompt-tokens LIST")
    if flags.out is None:
        parser.error("--checkpoint needs --out DIR")


def quieten():
    """Imports the reference's packages and silences their progress bars and warnings."""
    try:
        import torch  # noqa: F401
        import transformers
        import safetensors.torch  # noqa: F401
        import xxhash  # noqa: F401
    except ImportError as error:
        raise Refused(f"goldens need PyTorch and transformers: {error}\n  {NEEDED}") from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def make_own_golden(flags):
    request = request_of(flags)
    quieten()
    from golden.own import make_own

    make_own(request, flags.whole)


def make_case_goldens(flags):
    quieten()
    import torch
    from golden.bundled import make_cases

    torch.set_num_threads(1)  # fixes the order of summation
    make_cases(flags.out, flags.family, flags.case)


def main():
    flags = flags_of()
    try:
        make_own_golden(flags) if flags.checkpoint else make_case_goldens(flags)
    except Refused as refusal:
        sys.exit(f"make_golden.py: {refusal}")


if __name__ == "__main__":
    main()
