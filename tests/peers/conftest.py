"""Fixtures that the peer tests share: the compiler, exports that are made once, and the final table of figures.

    MOEC_BIN=build/dev/frontends/moec .venv/bin/pytest tests/peers

Without MOEC_BIN, the tests use the release build, or the dev build if there is no release build.
"""

import collections
import dataclasses
import functools
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comparison import Comparison
from goldens import REPO, Golden

sys.path.insert(0, str(REPO / "scripts"))

WORST = collections.defaultdict(Comparison)

gc.set_threshold(100_000)  # with the default of 700 new objects, collections take a fifth of coremltools' time


def find_binary():
    if "MOEC_BIN" in os.environ:
        return Path(os.environ["MOEC_BIN"]).absolute()
    builds = [REPO / "build" / build / "frontends/moec" for build in ("release", "dev")]
    return next((path for path in builds if path.is_file()), builds[0])


def take_signals():
    """For `preexec_fn`: restores SIGINT and SIGHUP, which children of background shells and of nohup ignore."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def compile_shim(name, folder):
    """Compiles NAME.cc and returns an environment that loads it into programs."""
    library = folder / "shim.so"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-o", str(library),
                    str(REPO / f"tests/peers/{name}.cc"), "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}


@pytest.fixture(scope="session")
def moec(tmp_path_factory):
    """moec(*arguments) runs the compiler and returns its standard output; on an error, fails with the complete
    output. Does not wait for the disk, which takes longer than most exports."""
    binary = find_binary()
    assert binary.is_file(), f"{binary} is missing: cmake --build --preset release --target moec"
    environment = compile_shim("no_sync", tmp_path_factory.mktemp("no_sync"))

    def run(*arguments):
        command = [str(binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def export(moec, tmp_path_factory):
    """export(checkpoint, *options) → the output folder. Exports each combination once."""

    @functools.cache
    def run(checkpoint, *options):
        out = tmp_path_factory.mktemp("export") / "out"
        moec("export", checkpoint, "--out", out, "--quiet", *options)
        return out

    return run


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """whole(target) → (files of an uninterrupted export, its duration in seconds)."""
    from exports import files_of, run

    @functools.cache
    def make(target):
        out = tmp_path_factory.mktemp("whole") / "out"
        start = time.monotonic()
        done = run(out, target)
        assert done.returncode == 0, done.stdout
        return files_of(out), time.monotonic() - start

    return make


@pytest.fixture(scope="session")
def failing_disk(tmp_path_factory):
    """failing_disk(CALL="write", …) → an environment in which such calls fail."""
    inherited = compile_shim("failing_disk", tmp_path_factory.mktemp("shim"))

    def environment(**what):
        return {**inherited, **{f"FAIL_{name}": str(value) for name, value in what.items()}}

    return environment


@pytest.fixture(scope="session")
def golden():
    """golden(case) → Golden, read once."""
    return functools.cache(Golden)


@pytest.fixture(scope="session")
def gguf_checkpoint(golden, tmp_path_factory):
    """gguf_checkpoint(case) → a checkpoint folder that GGUF can represent: that of the golden, or a variant of it."""
    from gguf_cases import VARIANTS, write_variant

    @functools.cache
    def folder_of(case):
        folder = golden(case).checkpoint
        return write_variant(case, tmp_path_factory.mktemp("variant") / case, folder) if case in VARIANTS else folder

    return folder_of


@pytest.fixture(scope="session")
def runner(export, golden):
    """runner(case, *options) → a Runner of the case's export, reset to the start of a sequence."""
    from run_with_onnxruntime import Runner  # LiteRT's environment lacks onnxruntime

    @functools.cache
    def open_runner(case, *options):
        return Runner(export(golden(case).checkpoint, *options), threads=1)

    def run(case, *options):
        opened = open_runner(case, *options)
        opened.reset()
        return opened

    return run


@pytest.fixture(scope="session")
def worst():
    """worst[kind] collects the worst figures of a kind for the end of the report."""
    return WORST


def pytest_sessionfinish(session):
    """Sends the figures of a worker process to the reporting process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["worst"] = {
            kind: dataclasses.astuple(figures) for kind, figures in WORST.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for kind, figures in getattr(node, "workeroutput", {}).get("worst", {}).items():
        WORST[kind].add(Comparison(*figures))


def pytest_terminal_summary(terminalreporter):
    if not WORST:
        return
    terminalreporter.section("worst figures")
    for kind, figures in sorted(WORST.items()):
        terminalreporter.write_line(f"{kind}: {figures}")
