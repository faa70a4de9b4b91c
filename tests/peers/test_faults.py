"""Exports that are killed, stopped, or hit full and failing disks: the same command resumes them and writes the
same bytes as an uninterrupted export.

    MOEC_KILLS=100 .venv/bin/pytest tests/peers/test_faults.py     the long mode: scripts/fault_test.sh
"""

import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from conftest import find_binary, take_signals
from exports import BOTH, MANNERS, check_unfinished, codes_of, export_command, files_of, finish, is_finished, report_of, run
from goldens import REPO

KILLS = int(os.environ.get("MOEC_KILLS", "10"))
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def kill_after(seconds, out, target, jobs):
    """Returns whether the export was killed before it finished. The process exits shortly after writing its last
    file."""
    export = subprocess.Popen(export_command(out, target, jobs), stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    export.kill()
    return export.wait() == -signal.SIGKILL and not is_finished(out)


def test_killed_exports_resume(whole, tmp_path):
    chance = random.Random(6)
    killed = kept = attempts = 0
    while killed < KILLS:
        attempts += 1
        assert attempts < 4 * KILLS, "exports finish before they can be killed"
        target, jobs = MANNERS[attempts % len(MANNERS)]
        expected, seconds = whole(target)
        out = tmp_path / str(attempts)
        if not kill_after(chance.uniform(0, seconds), out, target, jobs):
            continue
        killed += 1
        kept += finish(out, expected, target, jobs)
    print(f"{killed} of {killed} killed exports gave the bytes of an undisturbed one; "
          f"{kept} finished tables and shards were kept")
    assert kept > 0


def test_export_resumes_after_repeated_kills(whole, tmp_path):
    chance = random.Random(7)
    target, jobs = MANNERS[5]
    expected, seconds = whole(target)
    for _ in range(5):
        kill_after(chance.uniform(0.3, 0.6) * seconds, tmp_path / "out", target, jobs)
        if is_finished(tmp_path / "out"):
            return  # the export succeeded despite the fault
    finish(tmp_path / "out", expected, target, jobs)


def share_command(out, index, count, target):
    role = ("--part", f"{index}/{count}") if index < count else ("--join",)
    return export_command(out, target, 1, *role)


def test_killed_shares_and_joins_give_the_same_bytes(whole, tmp_path):
    """The processes of several nodes: three shares at the same time, then a join, each killed at random."""
    chance = random.Random(9)
    killed = joined = 0
    for attempt in range(KILLS):
        target = MANNERS[attempt % 2][0]
        expected, seconds = whole(target)
        out = tmp_path / str(attempt)
        for group in ((0, 1, 2), (3,)):
            running = [subprocess.Popen(share_command(out, index, 3, target), stdout=subprocess.DEVNULL)
                       for index in group]
            for export in running:
                time.sleep(chance.uniform(0, seconds / 2))
                export.kill()
                killed += export.wait() == -signal.SIGKILL
        if is_finished(out):
            continue  # the join succeeded despite the fault
        done = subprocess.run(share_command(out, 3, 3, target), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        joined += report_of(done)["parts_kept"]
        assert files_of(out) == expected
    print(f"{killed} shares and joins were killed; {joined} finished tables and shards were kept")
    assert killed > 0 and joined > 0


@pytest.fixture
def between_removals(failing_disk, tmp_path):
    """The state after a kill at that moment: both targets are finished, and the first journal is removed."""
    out = tmp_path / "out"
    done = run(out, BOTH, env=failing_disk(CALL="unlink", PATH="export.journal", AFTER=2, ERRNO=errno.EIO))
    assert done.returncode == 2 and "emit.write_failed" in codes_of(done), done.stdout
    assert sorted(path.parent.name for path in out.rglob("manifest.json")) == ["ane", "onnx"]
    assert [path.parent.name for path in out.rglob("export.journal")] == ["ane"]
    return out


@pytest.mark.parametrize("names", ["onnx,ane", "ane,onnx"])
def test_resumes_after_a_kill_between_journal_removals(names, whole, between_removals):
    expected, _ = whole(BOTH)
    kept = finish(between_removals, expected, ("--target", names, *BOTH[2:]))
    manifests = [json.loads(expected[f"{name}/manifest.json"]) for name in ("onnx", "ane")]
    assert kept == sum(len(manifest["shards"]) + 2 for manifest in manifests)
    assert codes_of(run(between_removals, BOTH)) == ["export.out_not_empty"]


def test_journals_of_finished_targets_do_not_grow(between_removals, failing_disk):
    def size():
        return (between_removals / "ane/export.journal").stat().st_size

    first = size()
    for _ in range(2):
        failing = failing_disk(CALL="unlink", PATH="export.journal", AFTER=2, ERRNO=errno.EIO)
        assert run(between_removals, BOTH, env=failing).returncode == 2
        assert size() == first


def test_keeps_finished_target_with_other_options(between_removals):
    before = files_of(between_removals)
    done = run(between_removals, (*BOTH, "--context", "32"))
    assert done.returncode == 2 and set(codes_of(done)) == {"export.differs"}, done.stdout
    assert files_of(between_removals) == before


def test_keeps_a_replaced_finished_target(between_removals):
    replacing = run(between_removals / "onnx", ("--target", "onnx", "--force"))
    assert replacing.returncode == 0, replacing.stdout
    before = files_of(between_removals)
    done = run(between_removals, BOTH)
    assert codes_of(done) == ["export.out_not_empty"] and f"{between_removals}/onnx" in done.stdout
    assert files_of(between_removals) == before


@pytest.fixture
def small_disk(tmp_path):
    """A separate file system and resize(bytes). Skips the test if mounting is not permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)],
                              capture_output=True).returncode == 0

    if not mount("size=64k"):
        pytest.skip("mounting is not allowed here")
    yield folder, lambda size: mount(f"remount,size={size}")
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("target,jobs", MANNERS)
def test_reports_a_disk_that_fills_up(target, jobs, whole, small_disk):
    expected, _ = whole(target)
    folder, resize = small_disk
    total = sum(len(file) for file in expected.values())
    assert resize(total * 6 // 10)
    done = run(folder / "out", target, jobs)
    assert done.returncode == 2 and "emit.no_space" in codes_of(done), done.stdout
    assert "export.unfinished" in codes_of(done)
    check_unfinished(folder / "out")
    assert resize(4 * total)
    assert finish(folder / "out", expected, target, jobs) > 0


FAILURES = {
    "read": ({"CALL": "read", "PATH": ".safetensors", "AFTER": 20, "ERRNO": errno.EIO}, "weights.read"),
    "write": ({"CALL": "write", "PATH": "/moe/", "AFTER": 3, "ERRNO": errno.EIO}, "emit.write_failed"),
    "full": ({"CALL": "write", "PATH": "/moe/", "AFTER": 3, "ERRNO": errno.ENOSPC}, "emit.no_space"),
    "sync": ({"CALL": "sync", "PATH": "/moe/", "AFTER": 2, "ERRNO": errno.EIO}, "emit.write_failed"),
    "journal": ({"CALL": "write", "PATH": "export.journal", "AFTER": 3, "ERRNO": errno.EIO},
                "emit.write_failed"),
    "rights": ({"CALL": "open", "PATH": "/lm_head/", "ERRNO": errno.EACCES}, "emit.no_permission"),
}


@pytest.mark.parametrize("jobs", [1, 2, 8])
@pytest.mark.parametrize("name", FAILURES)
def test_reports_failing_calls(name, jobs, whole, failing_disk, tmp_path):
    what, code = FAILURES[name]
    expected, _ = whole(MANNERS[0][0])
    done = run(tmp_path / "out", jobs=jobs, env=failing_disk(**what))
    assert done.returncode == 2 and codes_of(done)[0] == code, done.stdout
    check_unfinished(tmp_path / "out")
    finish(tmp_path / "out", expected, jobs=jobs)


def give_up_rights():
    """Drops root's privilege to bypass file permissions."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.parametrize("file", ["tokenizer.json", "report.json", "manifest.bin", "manifest.json"])
@pytest.mark.parametrize("target", [MANNERS[0][0], BOTH])
def test_reports_a_full_disk_for_small_files(file, target, whole, failing_disk, tmp_path):
    """Also after all tables and shards are written: the message states that files are kept and that the same
    command resumes."""
    expected, _ = whole(target)
    out = tmp_path / "out"
    manifests = [f"{folder}manifest.json" for folder in ("", "onnx/", "ane/")]
    wholes = [len(json.loads(expected[path])["shards"]) + 2 for path in manifests if path in expected]
    for _ in range(2):
        done = run(out, target, env=failing_disk(CALL="write", PATH=file, ERRNO=errno.ENOSPC))
        first, *notes = report_of(done)["diagnostics"]
        assert done.returncode == 2 and first["code"] == "emit.no_space", done.stdout
        assert [note["code"] for note in notes] == ["export.unfinished"] * len(wholes)
        stay = [0 for _ in wholes] if file == "tokenizer.json" else wholes
        assert [note["cause"] for note in notes] == [
            f"{count} of {all_of} tables and shards are complete and kept"
            for count, all_of in zip(stay, wholes, strict=True)]
    finish(out, expected, target)


def test_resumes_after_a_full_disk(whole, failing_disk, tmp_path):
    expected, _ = whole(MANNERS[0][0])
    out = tmp_path / "out"
    for file in ("report.json", "tokenizer.json"):
        done = run(out, env=failing_disk(CALL="write", PATH=file, ERRNO=errno.ENOSPC))
    count = len(json.loads(expected["manifest.json"])["shards"]) + 2
    assert f"{count} of {count} tables and shards are complete and kept" in done.stdout
    assert finish(out, expected) == count


# The fault occurs while writing the journal, while writing a shard, and after everything is written.
@pytest.mark.parametrize("target,when", [("onnx", 0), ("onnx", 1), ("onnx", -1), ("ane", 1)])
def test_reports_an_unsyncable_folder(target, when, whole, failing_disk, tmp_path):
    expected, _ = whole(("--target", target))
    flushes = len(json.loads(expected["manifest.json"])["shards"]) + 2
    out = tmp_path / "out"
    done = run(out, ("--target", target), env=failing_disk(CALL="sync_folder", PATH=str(out), ERRNO=errno.EIO,
                                                           AFTER=1 + when % flushes))
    assert done.returncode == 2 and codes_of(done)[0] == "emit.write_failed", done.stdout
    assert "cannot flush" in done.stdout and not is_finished(out)
    finish(out, expected, ("--target", target))


def test_reports_an_unwritable_folder(whole, failing_disk, tmp_path):
    expected, _ = whole(MANNERS[0][0])
    out = tmp_path / "out"
    run(out, env=failing_disk(CALL="open", PATH="/lm_head/", ERRNO=errno.EACCES))
    out.chmod(0o555)
    done = run(out, preexec_fn=give_up_rights)
    assert done.returncode == 2 and "emit.no_permission" in codes_of(done), done.stdout
    out.chmod(0o755)
    assert finish(out, expected) > 0


def start_slow_export(out, environment):
    """Starts an export and returns once its journal contains the first part."""
    export = subprocess.Popen(export_command(out, MANNERS[0][0], 2), env=environment, text=True,
                              stdout=subprocess.PIPE, preexec_fn=take_signals)
    journal = out / "export.journal"
    while not journal.exists() or b'{"part"' not in journal.read_bytes():
        assert export.poll() is None
        time.sleep(0.002)
    return export


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM"])
def test_signal_stops_cleanly(name, whole, failing_disk, tmp_path):
    expected, _ = whole(MANNERS[0][0])
    out = tmp_path / "out"
    export = start_slow_export(out, failing_disk(CALL="write", PATH=str(out), DELAY_MS=20))
    export.send_signal(getattr(signal, name))
    said, _ = export.communicate(timeout=60)
    assert export.returncode == 128 + getattr(signal, name)
    codes = [found["code"] for found in json.loads(said)["diagnostics"]]
    assert codes == ["export.interrupted", "export.unfinished"]
    check_unfinished(out)
    assert finish(out, expected) > 0


def test_second_signal_exits_immediately(whole, failing_disk, tmp_path):
    expected, _ = whole(MANNERS[0][0])
    out = tmp_path / "out"
    export = start_slow_export(out, failing_disk(CALL="write", PATH="/attn/", DELAY_MS=60_000))
    while not list(out.glob("attn/*.part")):
        time.sleep(0.002)
    time.sleep(0.5)  # until that file is being written; the disk is slow
    export.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert export.poll() is None
    export.send_signal(signal.SIGTERM)
    assert export.wait(timeout=30) == -signal.SIGTERM
    finish(out, expected)


def test_rejects_two_exports_into_one_folder(failing_disk, tmp_path):
    out = tmp_path / "out"
    export = start_slow_export(out, failing_disk(CALL="write", PATH=str(out), DELAY_MS=50))
    for more in ((), ("--force",)):
        done = subprocess.run(export_command(out, MANNERS[0][0], 1, *more), capture_output=True,
                              text=True)
        assert done.returncode == 2 and codes_of(done) == ["export.locked"]
    assert export.wait(timeout=60) == 0


@pytest.fixture
def no_threads():
    """Words that run a command as another user who may have only one thread, and a folder that this user may write
    to. Root is exempt from such a limit."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if not shutil.which("setpriv") or not shutil.which("prlimit"):
        pytest.skip("setpriv and prlimit are missing")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--nproc=1"]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        source = REPO / "models/tinymoe"
        if subprocess.run([*words, find_binary(), "inspect", source], capture_output=True).returncode != 0:
            pytest.skip("another user may not read the program or the model, or has other processes")
        yield words, Path(folder)


@pytest.mark.parametrize("target,jobs", MANNERS[3:6])
def test_export_succeeds_under_a_thread_limit(target, jobs, whole, no_threads):
    expected, _ = whole(target)
    words, folder = no_threads
    assert subprocess.run([*words, "sh", "-c", "true & wait"], capture_output=True).returncode != 0
    done = subprocess.run([*words, *export_command(folder / "out", target, jobs)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files_of(folder / "out") == expected
