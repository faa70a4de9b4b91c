#!/usr/bin/env python3
"""Finds spans in a text, or redacts it, with an export that labels tokens and contains a tokenizer.json.

The tokenizers package converts the text to token ids and maps them to characters; `moec run` finds the spans of tokens. If
tokens are bytes, `moec run --prompt TEXT` works without this script.

    pip install tokenizers
    moec export privacy-filter/ --out out/filter --tokens 512
    scripts/label_text.py out/filter --prompt "Call Nora Lindqvist at +49 171 5550123."
    scripts/label_text.py out/filter --redact < letter.txt
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def token_spans(moec, folder, ids):
    """The spans found by moec run, [{"start", "end", "label", "score"}], in tokens."""
    command = [moec, "run", folder, "--json", "--prompt-tokens", ",".join(map(str, ids))]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return json.loads(run.stdout)["spans"]


def text_span(text, offsets, span):
    """Converts a span to characters, without leading white space of its first token."""
    start, end = offsets[span["start"]][0], offsets[span["end"] - 1][1]
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return {**span, "start": start, "end": start + len(part.strip()), "text": part.strip()}


def encode(folder, text):
    """All tokens of a text, ignoring truncation and padding of tokenizer.json. Exits if the export has no such file."""
    import tokenizers

    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        sys.exit(f"{file} does not exist: export a checkpoint with a tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer.encode(text, add_special_tokens=False)


def find_spans(moec, folder, text, encoded):
    """The spans of a text, in characters."""
    if not encoded.ids:
        return []
    return [text_span(text, encoded.offsets, span) for span in token_spans(moec, folder, encoded.ids)]


def first_unjudged(text, offsets):
    """Index of the first character, except white space, that no token covers; None if there is none."""
    judged = [False] * len(text)
    for start, end in offsets:
        judged[start:end] = [True] * (end - start)
    return next((at for at, character in enumerate(text) if not (judged[at] or character.isspace())), None)


def redact(text, spans):
    """The text with each span replaced by <LABEL>."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span["start"]], f"<{span['label'].upper()}>"]
        at = max(at, span["end"])
    return "".join(parts) + text[at:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="an exported folder")
    parser.add_argument("-p", "--prompt", help="the text (default: standard input)")
    parser.add_argument("--redact", action="store_true", help="print the text with each span replaced by its label")
    parser.add_argument("--json", action="store_true", help="print the spans as JSON")
    parser.add_argument("--moec", default=str(ROOT / "build/release/frontends/moec"), help="the moec program")
    options = parser.parse_args()
    text = sys.stdin.read() if options.prompt is None else options.prompt
    encoded = encode(options.folder, text)
    unjudged = first_unjudged(text, encoded.offsets) if options.redact else None
    if unjudged is not None:
        sys.exit(f"the text cannot be redacted because no token covers its character {unjudged}: "
                 "the tokenizer.json of the export drops it")
    spans = find_spans(options.moec, options.folder, text, encoded)
    if options.json:
        print(json.dumps({"spans": spans, **({"redacted": redact(text, spans)} if options.redact else {})}, indent=2))
    elif options.redact:
        print(redact(text, spans), end="" if text.endswith("\n") else "\n")
    else:
        for span in spans:
            print(f"{span['start']:6} {span['end']:6}  {span['score']:.3f}  {span['label']}  {span['text']}")


if __name__ == "__main__":
    main()
