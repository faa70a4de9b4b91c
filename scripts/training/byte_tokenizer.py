"""Writes a tokenizer whose tokens are bytes, in the format of Hugging Face's tokenizers."""

import itertools
import json

from tokenizers import Tokenizer

from golden.publish import write_json


def byte_level_alphabet():
    """The printable character of each byte, by GPT-2's convention."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = itertools.count(256)
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def tokenizer_spec():
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {c: i for i, c in enumerate(byte_level_alphabet())}, "merges": []},
    }


def check_tokenizer(file):
    tok = Tokenizer.from_file(str(file))
    for text in ("Héllo", "a b\n\tc  d", "日本 ☃", "".join(map(chr, range(1, 300)))):
        ids = tok.encode(text).ids
        assert ids == list(text.encode()), text
        assert tok.decode(ids) == text, text


def write_tokenizer(folder):
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(tokenizer_spec(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    write_json(folder / "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512,
                "clean_up_tokenization_spaces": False})
    check_tokenizer(file)
