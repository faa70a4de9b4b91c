#!/usr/bin/env python3
"""Finds wording that CONTRIBUTING.md rules out, in comments, documents, messages and test names.

    scripts/check_words.py

Prints each place that breaks a rule and fails, unless EXCEPTIONS has a reason for it. `there is no` is not counted as
`is no`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE, DOCUMENTS = ("*.h", "*.cc"), ("*.md",)
PHRASES = {
    "is no": re.compile(r"(?<!here )\bis no (?!longer|further|more)"),
    "beside": re.compile(r"\bbeside\b"),
    "behind": re.compile(r"\bbehind\b"),
    "so many": re.compile(r"\bso many\b"),
    "of its own": re.compile(r"\bof its own\b"),
    "in front of": re.compile(r"\bin front of\b"),
    "glossary": re.compile(r"\b(stretch(es)?|foresee\w*|(leaves|leave) for another|(in|of) few bits|pass(es|ed)? by)\b"),
}
FRAGMENT = re.compile(r"^(What|Whether|Which|Those|That of)\b")
MOST_WORDS, MOST_TEST_WORDS = 30, 6
TEST_NAME = re.compile(r"^TEST(?:_[FP])?\(\w+,\s*(\w+)\)", re.MULTILINE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
LEAST_WORDS_OF_MESSAGE = 4
VERBS = "add|check|choose|convert|export|give|lower|make|name|pass|raise|remove|run|set|split|use|write"
# Two next steps that only a comma joins.
SPLICE = re.compile(rf"^(?:{VERBS}) [^,;]*, (?:{VERBS}) ")
# The last argument of fail() or a diagnostic: a next step that begins with a capital letter or ends with a full stop.
NEXT_STEP = re.compile(r'^\s+(?:std::string\()?"([A-Z][a-z]+ [^"]*\.)"', re.MULTILINE)

# (file, rule) → reason for the exception.
EXCEPTIONS = {
    ("backends/weights/encode/optimal_palette.cc", "comment: in front of"): "the position of a cut in a sequence",
    ("frontends/cli/help.cc", "message: long sentence"): "a table of option names",
}


def tracked(patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split()]


def comments_of(text):
    """Yields (line, text) of each comment; consecutive lines form one comment."""
    begun, parts = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(^|\s)//+ ?(.*)$", line)
        alone = found and not line[: found.start()].strip()
        if parts and not alone:
            yield begun, " ".join(parts)
            parts = []
        if not found:
            continue
        if not alone:
            yield number, found[2]
            continue
        line_text = found[2].rstrip()
        # Lines of a table, and blank lines, end a sentence.
        table = not line_text or "   " in line_text.strip() or line_text.startswith("  ")
        begun = begun if parts else number
        parts.append("  " + line_text.strip() + "  " if table else line_text)
    if parts:
        yield begun, " ".join(parts)


def messages_of(text):
    """Yields (line, text) of each string literal of several words; adjacent literals form one."""
    for found in LITERAL.finditer(re.sub(r"(?m)^\s*(#|//).*$", "", text)):
        message = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[0]))
        if len(message.split()) >= LEAST_WORDS_OF_MESSAGE:
            yield text.count("\n", 0, found.start()) + 1, message


def long_sentences(text):
    """Returns the sentences above the word limit; columns of a table are not sentences."""
    sentences = re.split(r"(?<=[.;:]) |   *", text)
    return [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS]


def paragraphs_of(text):
    """Yields (line, text) of each paragraph outside of code blocks and tables."""
    inside, begun, parts = False, 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        inside ^= line.startswith("```")
        prose = not inside and line.strip() and not line.startswith(("    ", "|", "```", "#", "<!--"))
        if prose:
            begun = begun if parts else number
            parts.append(line.strip())
        elif parts:
            yield begun, " ".join(parts)
            parts = []


def words_of_name(name):
    """Splits CamelCase into words; a number belongs to the word before it."""
    return re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+", name)


def findings(path, text):
    """Yields (rule, line, text) of each violation."""
    if path.suffix == ".md":
        for line, prose in paragraphs_of(text):
            yield from (("document: " + name, line, prose) for name, phrase in PHRASES.items() if phrase.search(prose))
        return
    for line, comment in comments_of(text):
        yield from (("comment: " + name, line, comment) for name, phrase in PHRASES.items() if phrase.search(comment))
        if FRAGMENT.match(comment):
            yield "comment: fragment", line, comment
        yield from (("comment: long sentence", line, sentence) for sentence in long_sentences(comment))
    for found in TEST_NAME.finditer(text):
        if len(words_of_name(found[1])) > MOST_TEST_WORDS:
            yield "test name", text.count("\n", 0, found.start()) + 1, found[1]
    if "tests" not in path.parts:
        for found in NEXT_STEP.finditer(text):
            yield "next step", text.count("\n", 0, found.start()) + 1, found[1]
        for line, message in messages_of(text):
            yield from (("message: " + name, line, message) for name, phrase in PHRASES.items() if phrase.search(message))
            yield from (("message: long sentence", line, sentence) for sentence in long_sentences(message))
            if SPLICE.match(message):
                yield "message: splice", line, message


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    places, excepted = [], set()
    for path in tracked([*CODE, *DOCUMENTS]):
        name = str(path.relative_to(ROOT))
        for rule, line, text in findings(path, path.read_text(encoding="utf-8")):
            if (name, rule) in EXCEPTIONS:
                excepted.add((name, rule))
            else:
                places.append(f"{name}:{line}: {rule}: {text[:160]}")
    places += [f"{name}: {rule}: no such place: remove the exception" for name, rule in EXCEPTIONS.keys() - excepted]
    print("\n".join(places) if places else f"no place to rewrite, {len(EXCEPTIONS)} exceptions")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
