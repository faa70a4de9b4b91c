"""System limits on threads, memory and file sizes: an export uses less or ends with a named error, and the same
command resumes it."""

import errno
import resource
import subprocess

import pytest

from conftest import find_binary
from exports import MANNERS, check_unfinished, codes_of, finish, run

MIB = 1 << 20
REFUSED = {"system.memory", "system.resource", "weights.open", "emit.write_failed", "weights.read"}


def limit_file_sizes():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


# By default, the signal SIGXFSZ kills the process.
def test_reports_a_file_size_limit(whole, tmp_path):
    expected, _ = whole(MANNERS[0][0])
    done = run(tmp_path / "out", preexec_fn=limit_file_sizes)
    assert done.returncode == 2 and "emit.no_space" in codes_of(done), done.stdout
    check_unfinished(tmp_path / "out")
    finish(tmp_path / "out", expected)


@pytest.mark.parametrize("allowed", [0, 1, 5, 9])
@pytest.mark.parametrize("manner", [3, 4, 5])
def test_export_succeeds_without_threads(allowed, manner, whole, failing_disk, tmp_path):
    target, jobs = MANNERS[manner]
    expected, _ = whole(target)
    done = run(tmp_path / "out", target, jobs,
               env=failing_disk(CALL="thread", AFTER=allowed + 1, ERRNO=errno.EAGAIN))
    assert done.returncode == 0, done.stdout + done.stderr
    files = {str(path.relative_to(tmp_path / "out")): path.read_bytes()
             for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == expected


def limit_memory(mib):
    def apply():
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))
    return apply


@pytest.mark.parametrize("target,jobs", MANNERS[3:6])
def test_reports_insufficient_memory(target, jobs, whole, tmp_path):
    """Raises the limit in small steps, from the smallest limit under which the program loads until the export
    succeeds."""
    expected, _ = whole(target)
    outcomes = []
    for mib in [*range(60, 500, 20), *range(500, 2000, 100)]:
        if not outcomes and subprocess.run([find_binary(), "--version"], capture_output=True,
                                           preexec_fn=limit_memory(mib)).returncode != 0:
            continue
        done = run(tmp_path / "out", target, jobs, preexec_fn=limit_memory(mib))
        assert done.returncode in (0, 2), f"{mib} MiB: {done.returncode} {done.stdout}{done.stderr}"
        outcomes.append(done.returncode)
        if done.returncode == 0:
            break
        assert set(codes_of(done)) & REFUSED, done.stdout
    assert 2 in outcomes and outcomes[-1] == 0, outcomes
    assert {str(path.relative_to(tmp_path / "out")): path.read_bytes()
            for path in (tmp_path / "out").rglob("*") if path.is_file()} == expected
