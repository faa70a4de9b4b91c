"""The command line of the runners: encodes a prompt, writes the generated text."""

import argparse
import sys
import time


class Bytes:
    """Encoder for models whose tokens are bytes, according to the manifest."""

    def encode(self, text):
        return list(text.encode())

    def decode(self, tokens):
        yield from (bytes([token]) for token in tokens)


class Tokenizer:
    """Encoder with the tokenizer.json of an export."""

    def __init__(self, path):
        import tokenizers  # not required for token ids

        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        # The file may contain truncation and padding, which transformers does not apply.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.stream = tokenizers.decoders.DecodeStream(skip_special_tokens=False)

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def decode(self, tokens):
        for token in tokens:
            text = self.stream.step(self.tokenizer, token)  # None if the character needs more tokens
            yield (text or "").encode()


class Ids:
    """Encoder for token ids."""

    def encode(self, text):
        return [int(token) for token in text.split(",")]

    def decode(self, tokens):
        yield from (b"%d " % token for token in tokens)


def tokenizer_of(runner):
    """The tokenizer of a folder; None if it has no tokenizer.json."""
    if runner.manifest["tokenizer"] == "bytes":
        return Bytes()
    if "tokenizer.json" in [file["path"] for file in runner.manifest["carried"]]:
        return Tokenizer(runner.folder / "tokenizer.json")
    return None


def encode_prompt(tokenizer, text, manifest):
    """Token ids of the text. Raises ValueError if there are none, or more than fit the context."""
    tokens = tokenizer.encode(text)
    if not tokens:
        raise ValueError("the prompt is empty: pass at least one token")
    vocab, context = manifest["model"]["vocab"], manifest["build"]["context"]
    for token in tokens:
        if not 0 <= token < vocab:
            raise ValueError(f"token {token} is outside the vocabulary of {vocab}")
    if len(tokens) > context:
        raise ValueError(f"{len(tokens)} tokens exceed the context of {context}: export with a larger --context")
    return tokens


def write_text(args, runner, parser):
    if runner.manifest["model"]["task"] != "text_generation":
        parser.error("this model labels tokens and generates no text: use `moec run`")
    tokenizer = Ids() if args.prompt is None else tokenizer_of(runner)
    if tokenizer is None:
        parser.error("the export has no tokenizer.json: pass --prompt-tokens")
    text = args.prompt_tokens if args.prompt is None else args.prompt
    tokens = encode_prompt(tokenizer, text, runner.manifest)
    count = min(args.max_tokens, runner.manifest["build"]["context"] - len(tokens) + 1)
    start = time.perf_counter()
    for piece in tokenizer.decode(runner.generate(tokens, count)):
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    rate = count / (time.perf_counter() - start)
    print(f"\n{rate:.1f} tokens/s, {runner.skipped_steps} steps skipped", file=sys.stderr)


def run_command(description, add_options, open_runner):
    """Main function of the scripts run_with_*.py, which differ in options and runners."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="exported folder")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="text to continue; prints text")
    prompt.add_argument("--prompt-tokens", help="token ids to continue, such as 17,4; prints token ids")
    parser.add_argument("--max-tokens", type=int, default=60, help="maximum number of generated tokens (default: 60)")
    parser.add_argument("--top-k", default="", help="top-k variant, by its name in the manifest (default: the first)")
    add_options(parser)
    args = parser.parse_args()
    try:
        write_text(args, open_runner(args), parser)
    except (OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
