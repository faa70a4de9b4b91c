"""Interrupted exports and the invariants of their folders."""

import json
import subprocess

from conftest import find_binary
from goldens import REPO

BOTH = ("--target", "onnx,ane", "--dtype", "f16", "--memory", "512")
EXPERT_FUNCTIONS = ("--target", "ane", "--routing", "host", "--experts-per-shard", "1", "--widths", "functions")
MANNERS = [(target, jobs) for jobs in (1, 2, 8) for target in (("--target", "onnx"), EXPERT_FUNCTIONS, BOTH)]


def export_command(out, target, jobs, *more):
    return [str(find_binary()), "export", str(REPO / "models/tinymoe"), "--out", str(out), "--json",
            "--tokens", "1,16", "--jobs", str(jobs), *target, *more]


def run(out, target=MANNERS[0][0], jobs=1, **how):
    return subprocess.run(export_command(out, target, jobs), capture_output=True, text=True, **how)


def report_of(done):
    return json.loads(done.stdout)


def codes_of(done):
    return [found["code"] for found in report_of(done)["diagnostics"]]


def files_of(folder):
    """Maps the path of every file to its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def check_unfinished(out):
    """Expects neither a finished export nor partial files."""
    names = [path.name for path in out.rglob("*")]
    assert "manifest.json" not in names
    assert [name for name in names if name.endswith((".part", ".old"))] == []


def finish(out, expected, target=MANNERS[0][0], jobs=1):
    """Runs the command again and returns the number of reused tables and shards."""
    done = run(out, target, jobs)
    assert done.returncode == 0, done.stdout
    files = files_of(out)
    assert files.keys() == expected.keys()
    assert [path for path in files if files[path] != expected[path]] == []
    report = report_of(done)
    return sum(one["parts_kept"] for one in report.get("targets", [report]))


def is_finished(out):
    return any(out.rglob("manifest.json")) and not any(out.rglob("export.journal"))
