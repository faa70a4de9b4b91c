"""Parses requests of `make_golden.py --checkpoint` without torch, so that errors appear immediately."""

import dataclasses
import json
from pathlib import Path

from golden.labels import TAGGERS
from golden.publish import REPO

FAMILIES = REPO / "models" / "families"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
DECODE_STEPS = 4


class Refused(Exception):
    """A rejected request. The message states the reason and the next step."""


@dataclasses.dataclass
class Request:
    """A validated request. `decode` has one entry per decode step: a token, or None for the reference's greedy token."""

    checkpoint: Path
    family: str
    prompt: list
    decode: list
    out: Path
    top_k: str = ""  # experts per token, in the syntax of golden.top_k; empty: the config's number


# ------------------------------------------------------------ checkpoint ----

def family_names():
    """Maps every model_type of moec's family descriptors, of text models and of larger models that contain them, to the
    class of transformers that reads it."""
    names = {}
    for path in sorted(FAMILIES.glob("*.json")):
        descriptor = json.loads(path.read_text())
        # common.json does not describe a family, and transformers has no class of families that can only be planned.
        if "axes" in descriptor and "plan_only" not in descriptor:
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
        raise Refused(f"{path} is not a JSON object: pass a checkpoint in the Hugging Face layout")
    return content


def gguf_file(checkpoint):
    """The GGUF file of a path: the path itself, or the only one in a folder without config.json. None if there is none."""
    if checkpoint.suffix == ".gguf" and checkpoint.is_file():
        return checkpoint
    files = sorted(checkpoint.glob("*.gguf")) if checkpoint.is_dir() else []
    return files[0] if len(files) == 1 and not (checkpoint / "config.json").is_file() else None


def pretrained(checkpoint):
    """Returns the folder and the keyword arguments for transformers' from_pretrained."""
    file = gguf_file(checkpoint)
    return (file.parent, {"gguf_file": file.name}) if file else (checkpoint, {})


def read_gguf_config(checkpoint):
    """The config that transformers derives from a GGUF file's keys."""
    folder, file = pretrained(checkpoint)
    try:
        from transformers import AutoConfig
        return AutoConfig.from_pretrained(folder, **file).to_dict()
    except ImportError as error:
        raise Refused(f"transformers needs the gguf package for GGUF files: {error}\n  pip install gguf") from error
    except Exception as error:  # transformers raises many types of exceptions
        raise Refused(f"transformers cannot read {gguf_file(checkpoint)} ({error}): pass the checkpoint from which it was "
                      "converted") from error


def read_any_config(checkpoint):
    """The config of a checkpoint: config.json of a folder, or the keys of a GGUF file."""
    if gguf_file(checkpoint):
        return read_gguf_config(checkpoint)
    if not checkpoint.is_dir():
        raise Refused(f"{checkpoint} is not a folder: pass the folder with config.json and *.safetensors")
    if not (checkpoint / "config.json").is_file():
        raise Refused(f"{checkpoint} has no config.json: pass a checkpoint in the Hugging Face layout")
    return read_json(checkpoint / "config.json")


def read_config(checkpoint):
    """Reads config.json of a checkpoint folder. Raises Refused if moec does not support the family."""
    config, known = read_any_config(checkpoint), family_names()
    if config.get("model_type") not in known:
        raise Refused(f"moec does not support the model_type {config.get('model_type')!r}, only "
                      + ", ".join(sorted(known)))
    return config


def weight_files(checkpoint):
    """Returns the weight files of a checkpoint: the files in its index, or its only file."""
    if gguf_file(checkpoint):
        return [gguf_file(checkpoint)]
    index = checkpoint / INDEX
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
    else:
        names = [SINGLE]
    files = [checkpoint / name for name in names]
    missing = [path.name for path in files if not path.is_file()]
    if missing or not files:
        raise Refused(f"{checkpoint} lacks weight files: {', '.join(missing) or f'{INDEX} lists none'}")
    return files


# ---------------------------------------------------------------- tokens ----

def parse_tokens(text, flag):
    """Parses "1,2,3" to a list of token ids."""
    try:
        tokens = [int(part) for part in text.split(",")]
    except ValueError:
        raise Refused(f"{flag} {text!r} is not a list of token ids: write it like 17,4,9") from None
    return tokens


def encode_text(checkpoint, text):
    """Token ids of a text by the checkpoint's tokenizer, including its special tokens."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Refused("--prompt needs the transformers package: `pip install transformers`, or pass --prompt-tokens") \
            from None
    try:
        folder, file = pretrained(checkpoint)
        return list(AutoTokenizer.from_pretrained(folder, **file)(text).input_ids)
    except Exception as error:  # tokenizers raise many types of exceptions
        raise Refused(f"the tokenizer of {checkpoint} cannot be loaded ({error}): pass --prompt-tokens") from error


def check_tokens(tokens, config):
    vocabulary = config.get("vocab_size")
    for token in tokens:
        if token < 0 or (vocabulary is not None and token >= vocabulary):
            raise Refused(f"token {token} is outside the vocabulary of {vocabulary}")


def decode_steps(flags, family, config):
    """Decode steps of a request: forced tokens, or None for greedy ones."""
    if family in TAGGERS:
        if flags.decode or flags.decode_tokens:
            raise Refused(f"{family} labels tokens and has no decode steps: omit --decode and --decode-tokens")
        return []
    if flags.decode_tokens is not None:
        forced = parse_tokens(flags.decode_tokens, "--decode-tokens")
        check_tokens(forced, config)
        return forced
    count = DECODE_STEPS if flags.decode is None else flags.decode
    if count < 0:
        raise Refused(f"--decode {count} is negative: pass at least 0")
    return [None] * count


def check_length(prompt, decode, config):
    if not prompt:
        raise Refused("the prompt is empty: pass at least one token")
    limit, count = config.get("max_position_embeddings"), len(prompt) + len(decode)
    if limit is not None and count > limit:
        raise Refused(f"{len(prompt)} prompt tokens and {len(decode)} decode steps exceed the model's "
                      f"{limit} positions (max_position_embeddings): pass a shorter prompt")


def request_of(flags):
    """Parses the flags of make_golden.py to a request. Raises Refused."""
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
