"""What a user asks for with `make_golden.py --checkpoint`: checked without torch, so that mistakes show at once."""

import dataclasses
import json
from pathlib import Path

from golden.labels import TAGGERS
from golden.publish import REPO

FAMILIES = REPO / "models" / "families"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
DECODE_STEPS = 4


class Refused(Exception):
    """A request that cannot be met. The message says why and what to do."""


@dataclasses.dataclass
class Request:
    """A checked request. `decode` has one entry for each decode step: the token to feed, or None for the reference's
    own greedy choice."""

    checkpoint: Path
    family: str
    prompt: list
    decode: list
    out: Path
    top_k: str = ""  # experts a token, as golden.top_k reads it; empty: as the config says


# ------------------------------------------------------------ checkpoint ----

def family_names():
    """model_type → the class of transformers that reads it, for every model_type that a family descriptor of moec names:
    of text models, and of the larger ones that hold them."""
    names = {}
    for path in sorted(FAMILIES.glob("*.json")):
        descriptor = json.loads(path.read_text())
        if "axes" in descriptor:  # common.json describes no family
            for name in [descriptor["model_type"], *descriptor.get("also", [])]:
                names[name] = descriptor["model_type"]
            names |= {each["model_type"]: each["model_type"] for each in descriptor.get("inside", [])}
    return names


def read_json(path):
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise Refused(f"{path} is not a JSON object")
    return content


def read_any_config(checkpoint):
    """config.json of a checkpoint folder."""
    if not checkpoint.is_dir():
        raise Refused(f"{checkpoint} is not a folder; name the folder that holds config.json and *.safetensors")
    if not (checkpoint / "config.json").is_file():
        raise Refused(f"{checkpoint} has no config.json; name a checkpoint in the layout of Hugging Face")
    return read_json(checkpoint / "config.json")


def read_config(checkpoint):
    """config.json of a checkpoint folder, whose family moec takes."""
    config, known = read_any_config(checkpoint), family_names()
    if config.get("model_type") not in known:
        raise Refused(f"model_type {config.get('model_type')!r} is none of the families that moec takes: "
                      + ", ".join(sorted(known)))
    return config


def weight_files(checkpoint):
    """The weight files of a checkpoint: those of its index, or its only one."""
    index = checkpoint / INDEX
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
    else:
        names = [SINGLE]
    files = [checkpoint / name for name in names]
    missing = [path.name for path in files if not path.is_file()]
    if missing or not files:
        raise Refused(f"{checkpoint} lacks weight files: {', '.join(missing) or f'{INDEX} names none'}")
    return files


# ---------------------------------------------------------------- tokens ----

def parse_tokens(text, flag):
    """"1,2,3" as a list of token ids."""
    try:
        tokens = [int(part) for part in text.split(",")]
    except ValueError:
        raise Refused(f"{flag} {text!r} is not a list of token ids such as 17,4,9") from None
    return tokens


def encode_text(checkpoint, text):
    """The token ids of a text by the checkpoint's own tokenizer, with the special tokens that it adds."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Refused("--prompt needs the transformers package; `pip install transformers`, or give --prompt-tokens") \
            from None
    try:
        return list(AutoTokenizer.from_pretrained(checkpoint)(text).input_ids)
    except Exception as error:  # each kind of tokenizer fails in a way of its own
        raise Refused(f"the tokenizer of {checkpoint} cannot be loaded ({error}); give --prompt-tokens") from error


def check_tokens(tokens, config):
    vocabulary = config.get("vocab_size")
    for token in tokens:
        if token < 0 or (vocabulary is not None and token >= vocabulary):
            raise Refused(f"token {token} is outside the vocabulary of {vocabulary}")


def decode_steps(flags, family, config):
    """The decode steps of a request: forced tokens, or None for each greedy one."""
    if family in TAGGERS:
        if flags.decode or flags.decode_tokens:
            raise Refused(f"{family} labels tokens and has no decode steps; leave --decode and --decode-tokens out")
        return []
    if flags.decode_tokens is not None:
        forced = parse_tokens(flags.decode_tokens, "--decode-tokens")
        check_tokens(forced, config)
        return forced
    count = DECODE_STEPS if flags.decode is None else flags.decode
    if count < 0:
        raise Refused(f"--decode {count} is negative")
    return [None] * count


def check_length(prompt, decode, config):
    if not prompt:
        raise Refused("the prompt is empty; give at least one token")
    limit, count = config.get("max_position_embeddings"), len(prompt) + len(decode)
    if limit is not None and count > limit:
        raise Refused(f"{len(prompt)} prompt tokens and {len(decode)} decode steps exceed the model's "
                      f"{limit} positions (max_position_embeddings); give a shorter prompt")


def request_of(flags):
    """The request that the flags of make_golden.py describe. Raises Refused."""
    config = read_config(flags.checkpoint)
    family = family_names()[config["model_type"]]
    config = config.get("text_config") or config
    weight_files(flags.checkpoint)
    decode = decode_steps(flags, family, config)
    if flags.prompt_tokens is not None:
        prompt = parse_tokens(flags.prompt_tokens, "--prompt-tokens")
    else:
        prompt = encode_text(flags.checkpoint, flags.prompt)
    check_tokens(prompt, config)
    check_length(prompt, decode, config)
    return Request(flags.checkpoint, family, prompt, decode, flags.out, flags.top_k or "")
