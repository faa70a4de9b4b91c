"""Collects tinymoe's training text: files of the machine, and the output of two generators."""

import ast
import gzip
import hashlib
import pydoc_data.topics
import random
import sysconfig
from pathlib import Path

import numpy as np

from training.tinymoe.generated import arithmetic, json_records

DOMAINS = ["python", "english", "arithmetic", "json"]
MIX = {"python": 0.36, "english": 0.36, "arithmetic": 0.14, "json": 0.14}
SEQ = 256


def held_out(name):
    """True if a document is held out, by a hash of its name: about one in twenty. Documents are never split."""
    return hashlib.sha256(name.encode()).digest()[0] < 13


def is_text(raw):
    return len(raw) > 400 and b"\0" not in raw and sum(b > 126 for b in raw[:4000]) < 40


def python_files():
    lib = Path(sysconfig.get_path("stdlib"))
    skip = {"site-packages", "__pycache__", "test", "tests", "idle_test", "lib2to3",
            "encodings", "pydoc_data", "dist-packages"}
    for path in sorted(lib.rglob("*.py")):
        rel = path.relative_to(lib)
        if not skip & set(rel.parts):
            raw = path.read_bytes()
            if is_text(raw):
                yield str(rel), raw


def docstrings(source):
    """All docstrings of one Python file, joined in order."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    parts = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) > 120:
                parts.append(text)
    return "\n\n".join(parts)


BAD_NAMES = ("change", "news", "history", "copyright", "symbols", "testcase", "todo",
             "author", "thanks", "credit", "version", "tags", "licen")


def is_manual(path):
    base = path.name.lower()
    stem = base.removesuffix(".gz")
    named = stem.endswith((".txt", ".md", ".rst")) or stem.startswith(("readme", "faq"))
    return named and not any(bad in base for bad in BAD_NAMES) and path.is_file() and not path.is_symlink()


def manuals():
    lib = Path(sysconfig.get_path("stdlib"))
    roots = [(lib, {"site-packages", "test", "tests"}), (Path("/usr/share/doc"), set()),
             (Path("/usr/share/vim"), {"syntax", "lang"})]
    for root, skip in roots:
        for path in sorted(root.rglob("*")):
            if skip & set(path.parts) or not is_manual(path):
                continue
            try:
                raw = path.read_bytes()
                raw = gzip.decompress(raw) if path.name.lower().endswith(".gz") else raw
            except (OSError, EOFError):
                continue
            yield str(path), raw[:200_000]


def licences():
    for path in sorted(Path("/usr/share/common-licenses").glob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes()


def english_files():
    """Yields (name, bytes) of prose: help topics, docstrings, installed manuals, licences."""
    for key, text in sorted(pydoc_data.topics.topics.items()):
        yield f"topic/{key}", text.encode()
    for name, raw in python_files():
        # the same name as the source, so that docstrings of a held-out source are also held out
        text = docstrings(raw)
        if len(text) > 400:
            yield name, text.encode("utf-8", "replace")
    yield from manuals()
    yield from licences()


def collect(domains):
    """Returns {domain: documents} for training, the same held out, and {domain: [number of files of each]}, without
    duplicates."""
    sides = {d: [] for d in domains}, {d: [] for d in domains}
    seen, files = set(), {d: [0, 0] for d in DOMAINS}
    for domain, source in domains.items():
        for name, raw in source:
            digest = hashlib.sha256(raw).digest()
            if not is_text(raw) or digest in seen:
                continue
            seen.add(digest)
            side = held_out(name)
            sides[side][domain].append(raw + b"\n\n")
            files[domain][side] += 1
    return *sides, files


def load_data():
    """Returns {domain: (training, held out)} as uint8 arrays, and the number of source files of each."""
    train, held, files = collect({"python": python_files(), "english": english_files()})
    for documents in held.values():
        random.Random(3).shuffle(documents)  # so that a slice of it covers many files
    for domain, make in (("arithmetic", arithmetic), ("json", json_records)):
        train[domain] = [make(random.Random(1), 4_000_000)]
        held[domain] = [make(random.Random(2), 200_000)]
    data = {d: tuple(np.frombuffer(b"".join(side[d]), np.uint8) for side in (train, held)) for d in DOMAINS}
    return data, files


def windows(array, count, rng, length=SEQ):
    """Random windows [count, length + 1]; each token is followed by the token that it predicts."""
    starts = rng.integers(0, len(array) - length - 1, count)
    return np.stack([array[s:s + length + 1] for s in starts])


def order0(array):
    p = np.bincount(array, minlength=256) / len(array)
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())
