"""The documents show what the program prints now."""

import subprocess
import sys

from conftest import find_binary
from goldens import REPO


def test_documents_show_what_is_printed():
    script = REPO / "scripts/update_documents.py"
    done = subprocess.run(
        [sys.executable, script, "--check", "--program", find_binary()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as printed") >= 3, done.stdout
