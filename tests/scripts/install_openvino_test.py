"""scripts/install_openvino.sh installs an optional part of the build, so its failures must not fail the build."""

import os
import pathlib
import shutil
import subprocess
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ENGINES = ROOT / "tests/peers/engines.txt"
NAME, VERSION = ENGINES.read_text(encoding="utf-8").strip().split("==")


@pytest.fixture
def clone(tmp_path):
    """A folder with the scripts and the package list, as in a clone."""
    for file in ("scripts/install_openvino.sh", "scripts/install_packages.sh", "tests/peers/engines.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def install(clone, **environment):
    done = subprocess.run([clone / "scripts/install_openvino.sh"], capture_output=True, text=True, cwd="/",
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_wheel(folder):
    """Writes a wheel with the name, the version and the single folder that the script checks."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {f"{NAME}/cmake/OpenVINOConfig.cmake": "",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nRequires-Dist: not-there\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{NAME}-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


def test_succeeds_without_a_package_index(clone):
    said = install(clone, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")
    assert f"no OpenVINO: pip could not install {NAME}=={VERSION}; moec is built without that engine" in said


def test_installs_only_the_wheel_once(clone):
    write_wheel(clone)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(clone)}
    assert f"installed {NAME}=={VERSION} into .venv" in install(clone, **offline)
    assert list(clone.glob(f".venv/lib/python3*/site-packages/{NAME}/cmake/OpenVINOConfig.cmake"))
    assert install(clone, **offline) == "OpenVINO is in .venv\n"


def test_succeeds_without_venv(clone):
    """apt-get also fails, so it cannot install the venv module."""
    programs = clone / "programs"
    programs.mkdir()
    for name in ("python3", "apt-get"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    said = install(clone, PATH=f"{programs}:{os.environ['PATH']}")
    assert "no OpenVINO: " in said and not (clone / ".venv").exists()
