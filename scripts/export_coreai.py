#!/usr/bin/env python3
"""Converts an export of moec into assets of Core AI, Apple's stack of OS 27: one .aimodel per shard, one function per width.

    scripts/install_vendors.sh coreai
    moec export models/tinymoe --out out/tinymoe --layout bc1s --dtype f16 --tokens 1,16
    build/vendors/coreai/bin/python scripts/export_coreai.py out/tinymoe

writes out/tinymoe-coreai/L00.attn.aimodel … with the functions t1 and t16, and coreai.json, which lists them.
tests/peers/test_coreai.py runs such assets in Apple's Linux runtime, a CPU interpreter, and compares them with goldens. The
assets have NEVER run on a device: neither loading in iOS or macOS 27 nor placement on the Neural Engine is tested.

Checks everything before writing: unsupported ops, attributes and types are rejected by name. A separate process writes
and loads each asset, in a folder OUT-coreai.part-…, which is renamed when it is complete. Only an interrupted run
leaves such a folder. Output is reproducible.

Exits with 0 if the assets were written, otherwise with 2.
"""

import argparse
import hashlib
import importlib.metadata
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = "coreai-core==1.0.0b3 numpy onnx"

try:
    import onnx  # noqa: F401
    VERSION = importlib.metadata.version("coreai-core")  # only the writing processes import the package
except ImportError as missing:
    print(f"error[coreai.package]: {missing}\n  next: run scripts/install_vendors.sh coreai, or pip install {PACKAGES} into a "
          "separate environment on Linux x86-64 or macOS", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

from aimodel.export import read_export  # noqa: E402
from aimodel.refusal import Refused, require  # noqa: E402

LIST = "coreai.json"
AUTHOR = Path(__file__).resolve().parent / "aimodel" / "author.py"
STATUS = "such assets load and compute correctly in Apple's Linux runtime; none has run on a device"


def end_of(done):
    """Describes how a process ended, with its last lines of output."""
    how = f"signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else f"exit code {done.returncode}"
    return how + "".join(f"\n  {line}" for line in done.stderr.strip().splitlines()[-3:])


def write_asset(export, shard, asset):
    """Writes one asset and checks the ports that Apple's runtime reads back."""
    widths = [f"{width.function}={width.file}" for width in shard.widths]
    done = subprocess.run([sys.executable, str(AUTHOR), str(export), str(asset), *widths], capture_output=True, text=True)
    require(done.returncode == 0, "library", f"{shard.name}: coreai-core {VERSION} ended with {end_of(done)}",
            f"export with other options, or use another version of {PACKAGES.split()[0]}")
    read = json.loads(done.stdout.strip().splitlines()[-1])
    wanted = {width.function: width.ports for width in shard.widths}
    require(read == wanted, "asset", f"{shard.name}: the runtime reads {read} instead of {wanted}",
            f"use coreai-core {PACKAGES.split()[0].partition('==')[2]}")


def described(folder, asset):
    path = folder / asset
    return {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def entry_of(shard, folder):
    files = [described(folder, path) for path in sorted((folder / f"{shard.name}.aimodel").iterdir())]
    return {"shard": shard.name, "path": f"{shard.name}.aimodel", "functions": [width.function for width in shard.widths],
            "sources": [{"path": width.file, "digest": width.digest} for width in shard.widths], "files": files}


def write_assets(export, shards, folder):
    for shard in shards:
        write_asset(export, shard, folder / f"{shard.name}.aimodel")
    manifest = hashlib.sha256((export / "manifest.json").read_bytes()).hexdigest()
    listed = {"format": "moec-coreai-assets", "version": 1, "status": STATUS, "packages": f"coreai-core {VERSION}",
              "manifest_sha256": manifest, "assets": [entry_of(shard, folder) for shard in shards]}
    (folder / LIST).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return listed


def check_target(target, force):
    """Rejects an existing target; with --force, only one that this script did not write."""
    if not target.exists() and not target.is_symlink():
        return
    require(force, "exists", f"{target} exists", "pass another --out, or pass --force to replace the folder")
    require((target / LIST).is_file(), "exists", f"{target} is not a folder of assets: it has no {LIST}",
            "pass another --out")


def replace(made, target):
    """Moves a finished folder to the target, and only then removes the old folder."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f"{target.name}.old-", dir=target.parent))
        target.rename(old / target.name)
        made.rename(target)
        shutil.rmtree(old)
    else:
        made.rename(target)


def convert(export, target, force):
    shards = read_export(export)
    check_target(target, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
    try:
        listed = write_assets(export, shards, made)
        made.chmod(0o755)
        replace(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return listed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", metavar="OUT", type=Path, help="a folder that `moec export --layout bc1s` wrote")
    parser.add_argument("--out", type=Path, help="output folder (default: OUT-coreai)")
    parser.add_argument("--force", action="store_true", help="replace an existing folder of assets")
    args = parser.parse_args()
    export = args.export.resolve()
    target = (args.out or export.with_name(f"{export.name}-coreai")).resolve()
    try:
        listed = convert(export, target, args.force)
    except Refused as error:
        parser.exit(2, f"{error}\n")
    except OSError as error:
        parser.exit(2, f"error[coreai.file]: {error}\n  next: {parser.prog} --help\n")
    size = sum(file["bytes"] for asset in listed["assets"] for file in asset["files"])
    print(f"wrote {len(listed['assets'])} assets, {size} bytes, to {target}; {STATUS}")


if __name__ == "__main__":
    main()
