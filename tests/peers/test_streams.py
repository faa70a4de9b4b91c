"""Full or closed stdout and stderr: an export continues and its files are complete, but results that cannot be
written are an error."""

import subprocess

import pytest

from conftest import find_binary
from goldens import REPO

MOEC = str(find_binary())
EXPORT = [MOEC, "export", str(REPO / "models/tinymoe"), "--tokens", "1", "--out"]


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    subprocess.run([*EXPORT, str(out), "--quiet"], check=True, capture_output=True)
    return files_of(out)


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_export_survives_lost_progress(tmp_path, undisturbed, redirection):
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *EXPORT, str(tmp_path / "out")]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert files_of(tmp_path / "out") == undisturbed


def test_export_runs_with_closed_descriptors(tmp_path, undisturbed):
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *EXPORT, str(tmp_path / "out")]
    done = subprocess.run(command, close_fds=True)
    assert files_of(tmp_path / "out") == undisturbed
    assert done.returncode == 0


@pytest.mark.parametrize(
    "words",
    [["plan", "mixtral-8x7b"], ["plan", "mixtral-8x7b", "--json"], ["inspect", str(REPO / "models/tinymoe")],
     ["opt", "--list-passes"], ["plan", "--help"]],
    ids=lambda words: " ".join(words[:1] + words[2:])[:30],
)  # fmt: skip
def test_reports_lost_results(words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([MOEC, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2, done.stderr
    assert "error[cli.output]" in done.stderr
    assert subprocess.run([MOEC, *words], stdout=subprocess.DEVNULL).returncode in (0, 1)
