"""Checks a checkpoint that is to be trained, and finds its tokenizer. Needs no torch."""

from golden.request import Refused, encode_text, read_any_config, weight_files

BYTES = 256  # a vocabulary of this size without a tokenizer is one of bytes
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt",
                   "tokenizer.model", "chat_template.jinja")


def check_checkpoint(folder):
    """config.json of a checkpoint that can be trained. Raises Refused."""
    config = read_any_config(folder)
    weight_files(folder)
    if "quantization_config" in config:
        raise Refused(f"{folder} stores weights in few bits (quantization_config), which cannot be trained; use the "
                      "checkpoint that it was made from")
    return config


def text_config(config):
    """The part of a config that describes the text model."""
    return config.get("text_config", config)


def encoder_of(folder, config):
    """The function that makes tokens of bytes: the checkpoint's tokenizer, or the bytes themselves. It raises Refused for
    tokens that the model does not have."""
    size = text_config(config).get("vocab_size")
    own = any((folder / name).is_file() for name in TOKENIZER_FILES)
    if not own and size != BYTES:
        raise Refused(f"{folder} has no tokenizer and a vocabulary of {size}; without a tokenizer it must be one of "
                      f"{BYTES} bytes")

    def encode(text):
        tokens = encode_text(folder, text.decode()) if own else list(text)
        if size is not None and tokens and max(tokens) >= size:
            raise Refused(f"the tokenizer of {folder} gives token {max(tokens)}, outside the vocabulary of {size}")
        return tokens
    return encode


def check_positions(config, settings):
    limit = text_config(config).get("max_position_embeddings")
    if limit is not None and settings.length > limit:
        raise Refused(f"--length {settings.length} exceeds the model's {limit} positions (max_position_embeddings)")
