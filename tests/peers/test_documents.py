"""The documents show what the program prints now."""

import re
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


def flags_of_help(text):
    """Default by flag; empty if --help-all shows none."""
    found = re.findall(r"^  (?:-\w,)?(--[a-z-]+)(?: [A-Z]+(?::>?=?[^ =]+)?(?:=(\S+))?)?", text, re.MULTILINE)
    return {name: default for name, default in found if name != "--help-all" and name != "--help"}


def flags_of_table(text):
    """Default by flag; empty if the table gives none, or gives it in words."""
    flags = {}
    for names, values in re.findall(r"^\| (`-[^|]*) \|([^|]*)\|", text, re.MULTILINE):
        default = re.search(r"\(`([^`]+)`\)\s*$", values)
        for name in re.findall(r"`(--[a-z-]+)`", names):
            flags.setdefault(name, default[1] if default else "")
    return flags


def test_option_table_has_the_rows():
    done = subprocess.run([find_binary(), "export", "--help-all"], capture_output=True, text=True, check=True)
    rows = flags_of_help(done.stdout)
    page = (REPO / "frontends/export/README.md").read_text(encoding="utf-8")
    table = flags_of_table(page[page.index("## Flags") : page.index("## Weights in few bits")])
    assert len(rows) > 50
    assert set(table) == set(rows)
    stated = {name: default for name, default in rows.items() if default}
    assert len(stated) >= 8
    assert {name: table[name] or stated[name] for name in stated} == stated
