"""scripts/count_tests.py counts the tests that ran and fails if there are fewer than required."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "count_tests.py"
LOG = """1/3 Testing: a.1
[==========] Running 2 tests from 1 test suite.
[==========] 2 tests from 1 test suite ran. (0 ms total)
2/3 Testing: a.2
[==========] 1 test from 1 test suite ran. (3 ms total)
3/3 Testing: broken
[==========] Running 9 tests from 2 test suites.
"""


@pytest.mark.parametrize("log, least, code", [(LOG, 3, 0), (LOG, 4, 1), ("", 1, 1)])
def test_fails_below_the_minimum(tmp_path, log, least, code):
    path = tmp_path / "LastTest.log"
    path.write_text(log)
    done = subprocess.run([sys.executable, SCRIPT, "--least", str(least), path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(f"{3 if log else 0} tests ran in {2 if log else 0} processes")
