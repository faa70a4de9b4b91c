"""Long commands show their progress on a terminal, in one line that fits its width, and nothing elsewhere. No command
prints a colour."""

import json
import re
import subprocess

import pytest

from command_inputs import Inputs
from conftest import find_binary
from goldens import REPO
from terminals import CLEAR, on_terminal

COLUMNS = 40
COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


@pytest.fixture(scope="module")
def words_of(moec, export, tmp_path_factory):
    """words_of(command) → its words, with the paths of its inputs."""
    return Inputs(moec, export, tmp_path_factory.mktemp("progress")).words


COMMANDS = [
    "export TINYMOE --out NEW --tokens 16",
    "export TINYMOE --out NEW --target gguf",
    "calibrate TINYMOE --text TEXT --window 64 --out NEW",
    "analyze TINYMOE --text TEXT --window 64 --out NEW",
    "analyze OUT --text TEXT --window 64 --out NEW",
    "analyze TINYMOE --table --text TEXT --window 64 --out NEW",
    "upcycle DENSE --out NEW --experts 4 --top-k 2 --verify",
    "prune TINYMOE --keep 12 --by count --profile PROFILE --out NEW",
    "check OUT",
    "validate OUT --golden GOLDEN",
    "compare OUT OUT --text TEXT --window 64",
    "compare OUT --groups GROUPS --text TEXT --window 64",
    "compare GOLDEN OUT",
    "probe OUT --groups GROUPS --text TEXT --window 64",
    "trace OUT --text TEXT --window 64 --out NEW",
    "simulate TRACE",
    "simulate OUT --text TEXT --window 64 --capacity 8",
    "discover ROUTED --text TEXT --out NEW",
    "prepack ROUTED --profile PROFILE --capacity 8 --out NEW",
    "split ROUTED --groups 2 --out NEW",
    "doctor --folder FOLDER --seconds 0.1",
]


def lines_of(shown):
    """Splits the output of a terminal into (lines of progress, text after the last one)."""
    before, *lines = shown.split(CLEAR)
    assert not lines or b"%" not in before, shown
    # An empty line is one that was cleared between two phases.
    return [line.decode() for line in lines[:-1] if line], (lines or [before])[-1]


@pytest.mark.parametrize("words", COMMANDS)
def test_terminal_shows_one_line(words, words_of):
    code, shown = on_terminal(words_of(words), COLUMNS)
    lines, rest = lines_of(shown)
    assert code == 0, shown
    assert lines, shown
    verb = words.split()[0]
    for line in lines:
        assert re.match(rf"{verb} +\d+ %", line), line
        assert len(line) < COLUMNS and "\n" not in line, line
    assert b"%" not in rest, "the last line is not cleared"
    assert not COLOUR.search(shown)


@pytest.mark.parametrize("words", COMMANDS)
def test_pipe_shows_nothing(words, words_of):
    done = subprocess.run([str(find_binary()), *words_of(words)], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert CLEAR not in done.stderr
    assert not re.search(rb"\d %", done.stderr), done.stderr


def test_confirm_shows_the_graphs(words_of):
    """The script of a vendor's compiler shows the same line. LiteRT is in no other environment."""
    python = REPO / "build/vendors/litert/bin/python"
    if not python.exists():
        pytest.skip("LiteRT is missing: scripts/install_vendors.sh litert")
    command = f"confirm LITERT --engine litert --python {python} --measured NEW --no-run"
    code, shown = on_terminal(words_of(command), COLUMNS)
    lines, _ = lines_of(shown)
    assert code == 0 and re.match(r"confirm   0 %, 0 of \d+ graphs", lines[0]), shown
    assert len(lines[0].partition("INFO")[0]) < COLUMNS, "LiteRT prints its notes after the line"
    assert CLEAR not in subprocess.run([str(find_binary()), *words_of(command)], capture_output=True).stderr


def test_line_has_rate_bytes_and_time(moec, tmp_path):
    """A model of 100 MB takes longer than the first tenth of a second, after which the rate is shown."""
    config = json.loads((Inputs.TINYMOE / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "moe_intermediate_size": 2048}))
    words = ["export", tmp_path / "config.json", "--out", tmp_path / "out", "--seeded-weights", 3, "--tokens", 1]
    code, shown = on_terminal(words, 200)
    assert code == 0, shown
    full = re.compile(r"export +\d+ %, \d+:\d\d left, [\d.]+ .?B/s, [\d.]+ .?B of [\d.]+ MB: \S+")
    lines, _ = lines_of(shown)
    assert any(full.fullmatch(line) for line in lines), lines
    code, shown = on_terminal([*words, "--force", "--json"], 200)
    assert lines_of(shown)[0], "--json leaves stderr to the progress"
    assert lines_of(on_terminal([*words, "--force", "--quiet"])[1]) == ([], b"")


def test_line_counts_tokens(words_of):
    """The text has nine bytes, one token each."""
    code, shown = on_terminal([*words_of("trace OUT --out NEW"), "--prompt", "def f(x):"], 200)
    assert code == 0, shown
    assert re.fullmatch(r"trace 100 %.*, 9 of 9 tokens.*", lines_of(shown)[0][-1]), shown


@pytest.mark.parametrize("words", ["--help", "export --help-all", "inspect /nowhere", "check OUT --min-coverage 100",
                                   "plan mixtral-8x7b"])
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}])
def test_no_command_prints_colours(words, environment, words_of):
    code, shown = on_terminal(words_of(words), both=True, environment=environment)
    assert shown and not COLOUR.search(shown), shown
    assert code == 0 or b"error" in shown
