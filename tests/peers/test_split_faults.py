"""Splits that are killed, or that hit full disks and file systems without hard links: nothing half-written looks
finished, and the same command produces the bytes of an uninterrupted split."""

import errno
import json
import os
import random
import subprocess
import time

import pytest

from conftest import find_binary
from gguf_models import write_gguf
from goldens import REPO

GROUPS = ("--groups", "4")
KILLS = int(os.environ.get("MOEC_KILLS", "10"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    [file] = write_gguf(REPO / "models/tinymoe", tmp_path_factory.mktemp("source") / "tinymoe.gguf")
    return file


def command(source, out, *more):
    return [str(find_binary()), "split", str(source), "--out", str(out), "--json", *(more or GROUPS)]


def run(source, out, *more, **options):
    done = subprocess.run(command(source, out, *more), capture_output=True, text=True, **options)
    return done.returncode, json.loads(done.stdout)


def files_of(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.gguf"))}


def is_finished(out):
    index = out / "split.json"
    return index.exists() and json.loads(index.read_text())["finished"]


def check_unfinished(out, whole):
    """Expects that files under their final name are complete, and that a node with its first file has all others."""
    assert not is_finished(out)
    found = files_of(out)
    assert found.items() <= whole.items()
    for name in found:
        if "-00001-" in name:
            assert {name.replace("-00001-", part) for part in ("-00002-", "-00003-")} <= found.keys()


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    start = time.monotonic()
    assert run(source, out)[0] == 0
    return files_of(out), time.monotonic() - start


def test_killed_splits_start_over(source, whole, tmp_path):
    chance, killed = random.Random(2), 0
    for attempt in range(10 * KILLS):
        out = tmp_path / f"out{attempt}"
        split = subprocess.Popen(command(source, out), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, whole[1]))
        split.kill()
        split.wait()
        if out.exists() and not is_finished(out):
            killed += 1
            check_unfinished(out, whole[0])
        if not is_finished(out):
            assert run(source, out)[0] == 0
        assert files_of(out) == whole[0] and not list(out.rglob("*.part"))
        if killed == KILLS:
            return
    pytest.fail(f"of {10 * KILLS} splits, only {killed} were killed while writing")


def test_failed_replacement_is_resumed(source, whole, failing_disk, tmp_path):
    """The earlier split no longer looks finished, and the next run removes its leftovers."""
    out, place = tmp_path / "out", tmp_path / "place.json"
    place.write_text('{"groups": [{"name": "zebra", "experts": "*:0-15"}]}')
    assert run(source, out, "--place", str(place))[0] == 0
    assert run(source, out)[1]["diagnostics"][0]["code"] == "split.out_not_empty"
    failing = failing_disk(CALL="unlinkat", PATH="tinymoe-00003", ERRNO=errno.EIO)
    exit_code, report = run(source, out, *GROUPS, "--force", env=failing)
    assert (exit_code, report["diagnostics"][0]["code"]) == (2, "export.no_permission")
    assert not is_finished(out)
    assert run(source, out)[0] == 0
    assert files_of(out) == whole[0]


@pytest.mark.parametrize("part", ["node0/", "-00002-of-", "node3/tinymoe-00001"])
@pytest.mark.parametrize("call, error, code", [("write", errno.ENOSPC, "emit.no_space"),
                                               ("sync", errno.EIO, "emit.write_failed")])
def test_reports_failing_disks(call, error, code, part, source, whole, failing_disk, tmp_path):
    out = tmp_path / "out"
    exit_code, report = run(source, out, env=failing_disk(CALL=call, PATH=part, ERRNO=error))
    assert (exit_code, [found["code"] for found in report["diagnostics"]]) == (2, [code])
    check_unfinished(out, whole[0])
    assert run(source, out)[0] == 0
    assert files_of(out) == whole[0]


def test_copies_the_trunk_without_hard_links(source, whole, failing_disk, tmp_path):
    out = tmp_path / "out"
    exit_code, report = run(source, out, env=failing_disk(CALL="link", PATH="tinymoe", ERRNO=errno.EPERM))
    assert exit_code == 0 and not report["trunk_linked"]
    assert [found["code"] for found in report["diagnostics"]] == ["split.trunk_copied"]
    assert files_of(out) == whole[0]
    assert {path.stat().st_nlink for path in out.rglob("*.gguf")} == {1}


def test_reports_unreadable_sources(source, failing_disk, tmp_path):
    out = tmp_path / "out"
    exit_code, report = run(source, out, env=failing_disk(CALL="read", PATH="tinymoe.gguf", AFTER=12, ERRNO=errno.EIO))
    assert (exit_code, report["diagnostics"][0]["code"]) == (2, "file.read")
    assert not is_finished(out)
