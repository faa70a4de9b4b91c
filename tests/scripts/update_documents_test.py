"""scripts/update_documents.py finds and rewrites output that a command no longer prints."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "update_documents.py"

PROGRAM = """#!/bin/sh
case "$1" in
  count) seq 1 "$2" ;;
  write) echo written >file ;;
  read) cat file ;;
  *) echo "unknown: $1" >&2; exit 2 ;;
esac
"""


def run(folder, text, *options):
    program = folder / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    page = folder / "page.md"
    page.write_text(text)
    done = subprocess.run(
        [sys.executable, SCRIPT, *options, "--program", program, page], capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.returncode, done.stdout, page.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "Two lines:\n\n    $ moec count 2\n    1\n    2\n\nEnd.\n",
        "First and last:\n\n    $ moec count 9\n    1\n    2\n    …\n    9\n",
        "<!-- run: moec write -->\n\n    $ moec read\n    written\n",
        "No output shown:\n\n    $ moec write\n    $ moec read\n    written\n",
        "No command:\n\n    anything\n",
    ],
)
def test_accepts_current_output(tmp_path, text):
    code, _, page = run(tmp_path, text, "--check")
    assert (code, page) == (0, text)


def test_rejects_stale_output(tmp_path):
    code, printed, page = run(tmp_path, "    $ moec count 2\n    1\n    3\n", "--check")
    assert code == 1
    assert "-    3\n+    2" in printed
    assert page.endswith("    3\n")


def test_rewrites_stale_output(tmp_path):
    code, _, page = run(tmp_path, "    $ moec count 4\n    0\n    …\n    9\n\nEnd.\n")
    assert (code, page) == (0, "    $ moec count 4\n    1\n    …\n    4\n\nEnd.\n")


@pytest.mark.parametrize("command", ["moec fail", "rm file"])
def test_rejects_a_failing_command(tmp_path, command):
    code, printed, _ = run(tmp_path, f"    $ {command}\n    1\n", "--check")
    assert code == 1
    assert command in printed
