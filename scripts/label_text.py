#!/usr/bin/env python3
"""Finds spans in a text, or redacts it, with an export that labels tokens and carries a tokenizer.json.

The tokenizers package turns the text into token ids and knows which characters each stands for; `moec run` finds the
spans among the tokens. Where tokens are bytes, `moec run --prompt TEXT` does it without this script.

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
    """The spans that moec run finds, [{"start", "end", "label", "score"}], counted in tokens."""
    command = [moec, "run", folder, "--json", "--prompt-tokens", ",".join(map(str, ids))]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return json.loads(run.stdout)["spans"]


def text_span(text, offsets, span):
    """The same span counted in characters, without the white space that a token may hold before its word."""
    start, end = offsets[span["start"]][0], offsets[span["end"] - 1][1]
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return {**span, "start": start, "end": start + len(part.strip()), "text": part.strip()}


def encode(folder, text):
    """All tokens of a text, also where tokenizer.json asks to cut or to pad it. Ends the program where the export has
    no such file."""
    import tokenizers

    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        sys.exit(f"{file} is missing: the checkpoint had none, so the export carries none")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer.encode(text, add_special_tokens=False)


def find_spans(moec, folder, text, encoded):
    """The spans of a text, counted in characters."""
    if not encoded.ids:
        return []
    return [text_span(text, encoded.offsets, span) for span in token_spans(moec, folder, encoded.ids)]


def first_unjudged(text, offsets):
    """The place of the first character, other than white space, that no token stands for; None where there is none."""
    judged = [False] * len(text)
    for start, end in offsets:
        judged[start:end] = [True] * (end - start)
    return next((at for at, character in enumerate(text) if not (judged[at] or character.isspace())), None)


def redact(text, spans):
    """The text with <LABEL> in place of each span."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span["start"]], f"<{span['label'].upper()}>"]
        at = max(at, span["end"])
    return "".join(parts) + text[at:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="an exported folder")
    parser.add_argument("-p", "--prompt", help="the text (default: standard input)")
    parser.add_argument("--redact", action="store_true", help="print the text with a label in place of each span")
    parser.add_argument("--json", action="store_true", help="print the spans as JSON")
    parser.add_argument("--moec", default=str(ROOT / "build/release/frontends/moec"), help="the moec program")
    options = parser.parse_args()
    text = sys.stdin.read() if options.prompt is None else options.prompt
    encoded = encode(options.folder, text)
    unjudged = first_unjudged(text, encoded.offsets) if options.redact else None
    if unjudged is not None:
        sys.exit(f"character {unjudged} of the text belongs to no token, so the text cannot be redacted: "
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
