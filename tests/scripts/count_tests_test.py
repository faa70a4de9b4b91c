"""scripts/count_tests.py counts tests, and fails if some are missing."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "count_tests.py"
LISTED = "Suite.\n  First\n  Second  # GetParam() = 1\nOther.\n  Third\n"


def executable(folder, name, listed):
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\nRunning main() from gmock_main.cc\n{listed}END\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("least, listed, code", [(6, LISTED, 0), (7, LISTED, 1), (3, "", 1)])
def test_fails_below_the_least(tmp_path, least, listed, code):
    paths = [executable(tmp_path, "a_tests", LISTED), executable(tmp_path, "b_tests", listed)]
    done = subprocess.run([sys.executable, SCRIPT, "--least", str(least), *paths], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[0] == "a_tests: 3 tests"
