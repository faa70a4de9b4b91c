"""Writes models and goldens into their folders atomically: all files of a run or none."""

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def sha256(path):
    """SHA-256 of a file, read in pieces, because weight files may be larger than memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions(*modules):
    """The versions of the modules and of Python, by name."""
    return {**{module.__name__: module.__version__ for module in modules}, "python": platform.python_version()}


def write_json(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n")


@contextlib.contextmanager
def staged(folder, cleared=()):
    """Yields an empty folder to write into. At the end, moves its files into `folder`, and removes old files from
    `folder` with a suffix in `cleared` that were not written again. After an exception, `folder` is unchanged."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        staging = Path(name)
        yield staging
        folder.mkdir(exist_ok=True)
        fresh = sorted(staging.iterdir())
        for path in fresh:
            os.chmod(path, 0o644)
            os.replace(path, folder / path.name)
        written = {path.name for path in fresh}
        for path in folder.iterdir():
            if path.suffix in cleared and path.name not in written:
                path.unlink()
