"""What the peers' tests share: the compiler, and the bundled model as it exports it."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def moec():
    """moec(*arguments): runs the release build, gives its standard output, fails with all it said."""
    binary = pathlib.Path(os.environ.get("MOEC", ROOT / "build/release/frontends/moec"))
    assert binary.is_file(), f"{binary} is missing: cmake --build --preset release --target moec"

    def run(*arguments):
        command = [str(binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def export(moec, tmp_path_factory):
    """export(checkpoint, *options): the output folder, exported once a session for each set of options."""
    folders = {}

    def run(checkpoint, *options):
        key = (str(checkpoint), *map(str, options))
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("export") / "out"
            moec("export", checkpoint, "--out", folders[key], *options)
        return folders[key]

    return run


@pytest.fixture(scope="session")
def tinymoe(export):
    return export(ROOT / "models/tinymoe", "--tokens", "1,16")
