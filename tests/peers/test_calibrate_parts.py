"""moec calibrate --part and --join: the layers of one calibration, divided among processes."""

import json
import os
import random
import subprocess
import time

import pytest

from conftest import find_binary
from exports import codes_of, files_of
from goldens import REPO

KILLS = int(os.environ.get("MOEC_KILLS", "10"))
PARTS = 3


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes((REPO / "tests/data/tinymoe_calibration.bin").read_bytes()[:2048])
    return path


def words_of(text, out, *flags):
    return [str(word) for word in (find_binary(), "calibrate", REPO / "models/tinymoe", "--text", text, "--out", out,
                                   "--window", 64, "--json", *flags)]


@pytest.fixture
def command(text, tmp_path):
    """command(*flags) → the words of a calibration into tmp_path/out."""
    return lambda *flags, out=tmp_path / "out": words_of(text, out, *flags)


def run(words, **how):
    return subprocess.run(words, capture_output=True, text=True, **how)


def calibrate(words):
    done = run(words)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def expected(text, tmp_path_factory):
    """The files of an undivided calibration, and its duration in seconds."""
    out = tmp_path_factory.mktemp("whole") / "out"
    start = time.monotonic()
    calibrate(words_of(text, out))
    return files_of(out), time.monotonic() - start


@pytest.mark.parametrize("count", [1, PARTS, 20])
def test_simultaneous_parts_give_the_same_bytes(command, expected, tmp_path, count):
    running = [subprocess.Popen(command("--part", f"{index}/{count}"), stdout=subprocess.PIPE, text=True)
               for index in range(count)]
    reports = [json.loads(part.communicate()[0]) for part in running]
    assert [report["part"] for report in reports] == [{"index": index, "count": count} for index in range(count)]
    layers = [layer["layer"] for report in reports for layer in report["layers"]]
    assert layers == [0, 1, 2, 3, -1]
    assert calibrate(command("--join"))["resumed_layers"] == 5
    assert files_of(tmp_path / "out") == expected[0]


def test_killed_parts_and_joins_give_the_same_bytes(command, expected, tmp_path):
    chance = random.Random(11)
    files, seconds = expected
    killed = kept = 0
    for attempt in range(KILLS):
        out = tmp_path / str(attempt)
        for group in (range(PARTS), range(PARTS), ["join"]):
            roles = [("--join",) if index == "join" else ("--part", f"{index}/{PARTS}") for index in group]
            running = [subprocess.Popen(command(*role, out=out), stdout=subprocess.DEVNULL) for role in roles]
            for part in running:
                time.sleep(chance.uniform(0, seconds / 2))
                part.kill()
                killed += part.wait() == -9
        if "calibrate.out_not_empty" in (done := run(command("--join", out=out))).stdout:
            assert not (out / ".parts").exists(), "the killed join had finished"
        else:
            assert done.returncode == 0, done.stdout
            kept += json.loads(done.stdout)["resumed_layers"]
        assert files_of(out) == files
    print(f"{killed} parts and joins were killed; {kept} layers were kept")
    assert killed > 0 and kept > 0


def test_join_repairs_damaged_and_missing_layers(command, expected, tmp_path):
    for index in (0, 2):
        calibrate(command("--part", f"{index}/{PARTS}"))
    file = tmp_path / "out/.parts/0/L00.hessians"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    listed = sum(len(json.loads((tmp_path / f"out/.parts/{index}/calibration.json").read_text())["layers"])
                 for index in (0, 2))
    assert calibrate(command("--join"))["resumed_layers"] == listed - 1
    assert files_of(tmp_path / "out") == expected[0]


def test_rejects_processes_on_one_part(command, failing_disk, tmp_path):
    """Also a join while a part runs."""
    out = tmp_path / "out"
    slow = failing_disk(CALL="write", PATH=str(out / ".parts/1"), DELAY_MS=300)
    part = subprocess.Popen(command("--part", f"1/{PARTS}"), env=slow, stdout=subprocess.DEVNULL)
    while not (out / ".parts/1/calibration.json").exists():
        assert part.poll() is None
        time.sleep(0.002)
    for role in (("--part", f"1/{PARTS}"), ("--join",), ()):
        done = run(command(*role))
        assert done.returncode == 2 and codes_of(done) == ["export.locked"], done.stdout
    assert run(command("--part", f"0/{PARTS}")).returncode == 0
    assert part.wait(timeout=120) == 0
    assert run(command("--join")).returncode == 0


@pytest.mark.parametrize("flags", [("--group-memory", "2MiB"), ("--ignore-key", "bos_token_id")])
def test_rejects_parts_with_other_flags(command, tmp_path, flags):
    calibrate(command("--part", f"0/{PARTS}"))
    before = files_of(tmp_path / "out")
    for role in (("--part", f"1/{PARTS}"), ("--join",)):
        done = run(command(*role, *flags))
        assert done.returncode == 2 and codes_of(done) == ["calibrate.differs"], done.stdout
    assert files_of(tmp_path / "out") == before
