"""Checks a checkpoint before training, and finds its tokenizer. Does not require torch."""

from golden.request import Refused, encode_text, read_any_config, weight_files

BYTES = 256  # without a tokenizer, a vocabulary of this size consists of bytes
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt",
                   "tokenizer.model", "chat_template.jinja")


def check_checkpoint(folder):
    """Reads config.json of a checkpoint. Raises Refused if it cannot be trained."""
    config = read_any_config(folder)
    weight_files(folder)
    if "quantization_config" in config:
        raise Refused(f"{folder} has quantized weights (quantization_config), which cannot be trained: use the "
                      "checkpoint that it was made from")
    return config


def text_config(config):
    """The config of the text model, which may be nested."""
    return config.get("text_config", config)


def encoder_of(folder, config):
    """Returns the function that converts bytes to tokens: the checkpoint's tokenizer, or the identity. It raises Refused for
    tokens outside the vocabulary."""
    size = text_config(config).get("vocab_size")
    own = any((folder / name).is_file() for name in TOKENIZER_FILES)
    if not own and size != BYTES:
        raise Refused(f"{folder} has no tokenizer and a vocabulary of {size}: without a tokenizer, it must have "
                      f"{BYTES} bytes")

    def encode(text):
        tokens = encode_text(folder, text.decode()) if own else list(text)
        if size is not None and tokens and max(tokens) >= size:
            raise Refused(f"the tokenizer of {folder} returns token {max(tokens)}, outside the vocabulary of {size}")
        return tokens
    return encode


def check_positions(config, settings):
    limit = text_config(config).get("max_position_embeddings")
    if limit is not None and settings.length > limit:
        raise Refused(f"--length {settings.length} exceeds the model's {limit} positions (max_position_embeddings)")
