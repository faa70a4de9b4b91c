"""The documents show the program's current output."""

import re
import subprocess
import sys

from conftest import find_binary
from goldens import REPO


def test_documents_show_current_output():
    script = REPO / "scripts/update_documents.py"
    done = subprocess.run(
        [sys.executable, script, "--check", "--program", find_binary()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("up to date") >= 3, done.stdout


def flags_of_help(text):
    """Maps flags to defaults, which are empty if --help-all shows none."""
    found = re.findall(r"^  (?:-\w,)?(--[a-z-]+)(?: [A-Z]+(?::>?=?[^ =]+)?(?:=(\S+))?)?", text, re.MULTILINE)
    return {name: default for name, default in found if name != "--help-all" and name != "--help"}


def flags_of_table(text):
    """Maps flags to defaults, which are empty if the table has none or describes them in words."""
    flags = {}
    for names, values in re.findall(r"^\| (`-[^|]*) \|([^|]*)\|", text, re.MULTILINE):
        default = re.search(r"\(`([^`]+)`\)\s*$", values)
        for name in re.findall(r"`(--[a-z-]+)`", names):
            flags.setdefault(name, default[1] if default else "")
    return flags


def test_option_table_lists_every_flag():
    done = subprocess.run([find_binary(), "export", "--help-all"], capture_output=True, text=True, check=True)
    rows = flags_of_help(done.stdout)
    page = (REPO / "frontends/export/README.md").read_text(encoding="utf-8")
    table = flags_of_table(page[page.index("## Flags") : page.index("## Quantized weights")])
    assert len(rows) > 50
    assert set(table) == set(rows)
    stated = {name: default for name, default in rows.items() if default}
    assert len(stated) >= 8
    assert {name: table[name] or stated[name] for name in stated} == stated
