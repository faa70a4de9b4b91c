#!/usr/bin/env python3
"""Measurements of scripts/bench.sh, which builds the programs first. README.md describes them."""

import argparse
import functools
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

import disk_floor
from make_checkpoint import write_checkpoint
from measured import measure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOEC = ROOT / "build/release/frontends/moec"
BENCHMARKS = ROOT / "build/release/tests/moec_benchmarks"
HISTORY = pathlib.Path(__file__).resolve().parent / "history"
SPARSE_GIGABYTES, SPARSE_FILES = 1000, 32
PLAN_FLAGS = ["--max-shard-mb", "400", "--resident-budget", "512GB"]
TARGETS = ("onnx", "ane")


def say(text):
    print(text, file=sys.stderr, flush=True)


def export(checkpoint, out, *flags):
    shutil.rmtree(out, ignore_errors=True)
    measured = measure([MOEC, "export", checkpoint, "--out", out, "--quiet", "--dtype", "f16", *flags])
    shutil.rmtree(out)
    return measured


def copy(payload, folder):
    """Seconds of `cp` of the payload, including the flush to disk."""
    folder.mkdir()
    began = time.monotonic()
    subprocess.run(["cp", *map(str, payload), str(folder)], check=True)
    subprocess.run(["sync", *(str(folder / path.name) for path in payload)], check=True)
    seconds = time.monotonic() - began
    shutil.rmtree(folder)
    return seconds


def one_round(checkpoint, out, ways, number):
    """Measures floors and exports of the same bytes in turn, each from a cold cache, in GB/s of payload. Each round begins
    with a different measurement, because a disk is slower after a long write."""
    payload = sorted(checkpoint.glob("*.safetensors"))
    size, result = disk_floor.total_size(payload), {}

    def run_export(target):
        exported = export(checkpoint, out / "out", "--target", target)
        result[f"{target}_peak_bytes"] = exported["peak_bytes"]
        return size / exported["seconds"] / 1e9

    measured = {
        "read": lambda: disk_floor.read_rate(payload, ways["read"]),
        "write": lambda: disk_floor.write_rate(out / "floor", size, ways["write"]),
        "read_and_write": lambda: disk_floor.copy_rate(payload, out / "floor", ways["read_and_write"]),
        "cp": lambda: size / copy(payload, out / "cp") / 1e9,
        **{target: functools.partial(run_export, target) for target in TARGETS},
    }
    names = list(measured)
    for name in names[number % len(names) :] + names[: number % len(names)]:
        disk_floor.settle(payload)
        result[name] = measured[name]()
    return result


def ratios(result):
    """Ratio of each export to each floor of the same round. `slower` is the slower of read and write."""
    floors = {name: result[name] for name in ("read", "write", "read_and_write", "cp")}
    floors["slower"] = min(floors["read"], floors["write"])
    return {target: {name: result[target] / floor for name, floor in floors.items()} for target in TARGETS}


def measure_disk(options, folder, out):
    checkpoint = folder / "checkpoint"
    say(f"writing a checkpoint of {options.gigabytes} GB")
    write_checkpoint(checkpoint, options.gigabytes, 4, 1024, 3584, 8, sparse=False)
    say("measuring the disk")
    # One file is enough to choose the fastest block size and depth.
    ways, rounds = disk_floor.fastest_ways(sorted(checkpoint.glob("*.safetensors"))[:1], out / "floor"), []
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        rounds.append(one_round(checkpoint, out, ways, number))
    shutil.rmtree(checkpoint)
    each = [ratios(result) for result in rounds]
    return {
        "gigabytes": options.gigabytes,
        "same_disk": os.stat(folder).st_dev == os.stat(out).st_dev,
        "ways": ways,
        "rounds": rounds,
        "median": {name: statistics.median(result[name] for result in rounds) for name in rounds[0]},
        "median_ratio": {
            target: {name: statistics.median(ratio[target][name] for ratio in each) for name in each[0][target]}
            for target in TARGETS
        },
    }


def measure_sparse(folder, gigabytes=SPARSE_GIGABYTES, hidden=4096, ff=14336):
    """Measures two commands on a nominal terabyte checkpoint: the plan of the whole model with expert groups and
    limited memory, and the export of the first layer as a single shard."""
    checkpoint = folder / "sparse"
    say(f"planning a checkpoint of {gigabytes} GB and exporting its first layer")
    write_checkpoint(checkpoint, gigabytes, SPARSE_FILES, hidden, ff, 8, sparse=True)
    size = disk_floor.total_size(checkpoint.glob("*.safetensors"))
    planned = measure([MOEC, "plan", checkpoint, "--dtype", "f16", *PLAN_FLAGS])
    exported = export(checkpoint, folder / "out", "--layers", 1)
    shutil.rmtree(checkpoint)
    return {"nominal_bytes": size, "plan_flags": PLAN_FLAGS, "plan": planned, "export": exported}


def run_benchmarks():
    say("kernels, planner and passes")
    command = [BENCHMARKS, "--benchmark_format=json", "--benchmark_min_time=0.2"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    kept = ("cpu_time", "time_unit", "bytes_per_second", "items_per_second", "ops")
    return {one["name"]: {key: one[key] for key in kept if key in one} for one in report["benchmarks"]
            if not one.get("error_occurred")}  # fmt: skip


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def describe_run():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    changed = git("status", "--porcelain", "--untracked-files=no") != ""
    return {"commit": git("rev-parse", "--short=12", "HEAD"), "changed": changed, "kernel": platform.release(),
            "cores": os.cpu_count(), "memory_bytes": memory, "load": os.getloadavg()}  # fmt: skip


def print_disk(disk):
    print(f"bf16 to f16, {disk['gigabytes']} GB, GB/s (medians of {len(disk['rounds'])} rounds)")
    for name in ("read", "write", "read_and_write", "cp", *TARGETS):
        print(f"  {name:16} {disk['median'][name]:6.2f}   " + "  ".join(f"{r[name]:.2f}" for r in disk["rounds"]))
    print("ratio of the export to each floor of the same round (medians), and peak memory")
    names = list(disk["median_ratio"][TARGETS[0]])
    print("  " + " " * 6 + "".join(f"{name:>16}" for name in names) + f"{'peak MiB':>12}")
    for target in TARGETS:
        peak = max(result[f"{target}_peak_bytes"] for result in disk["rounds"]) / 2**20
        print(f"  {target:6}" + "".join(f"{disk['median_ratio'][target][n]:16.2f}" for n in names) + f"{peak:12.0f}")


def print_sparse(sparse):
    print(f"{sparse['nominal_bytes'] / 1e12:.2f} TB nominal, in sparse files")
    for what, name in (("plan", "plan of all"), ("export", "export of a layer")):
        one = sparse[what]
        print(f"  {name:17} {one['seconds']:6.1f} s {one['peak_bytes'] / 2**20:6.0f} MiB")


def print_text(record):
    run = record["run"]
    print(f"moec {run['commit']}{' (changed)' if run['changed'] else ''}, {run['cores']} cores, load {run['load'][0]:.1f}")
    print_disk(record["disk"])
    print_sparse(record["sparse"])
    for name, one in record["benchmarks"].items():
        rate = f"{one['bytes_per_second'] / 1e9:8.2f} GB/s" if "bytes_per_second" in one else ""
        ops = f"{one['ops']:8.0f} ops" if "ops" in one else ""
        print(f"  {name:32} {one['cpu_time']:12.3f} {one['time_unit']}{rate}{ops}")


def keep(record):
    if record["run"]["changed"]:
        raise SystemExit("the record was not kept, because there are uncommitted changes: commit them first")
    HISTORY.mkdir(exist_ok=True)
    disks = "" if record["disk"]["same_disk"] else "-two-disks"
    path = HISTORY / f"{record['run']['commit']}-{record['disk']['gigabytes']:g}gb{disks}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    say(f"kept as {path.relative_to(ROOT)}")


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4, help="size of the checkpoint (default: 4)")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: 3)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/bench",
                        help="folder of the checkpoint (default: build/bench)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="folder of the exports, which may be on another disk (default: --folder)")
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    parser.add_argument("--keep", action="store_true", help="add the record to scripts/bench/history/")
    return parser.parse_args()


def own_folder(parent):
    folder = parent / f"run-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main():
    options = parse_flags()
    folder = own_folder(options.folder)
    out = own_folder(options.out or options.folder)
    try:
        record = {"run": describe_run(), "disk": measure_disk(options, folder, out), "sparse": measure_sparse(folder),
                  "benchmarks": run_benchmarks()}  # fmt: skip
    finally:
        for each in {folder, out}:
            shutil.rmtree(each)
    print(json.dumps(record, indent=1)) if options.json else print_text(record)
    if options.keep:
        keep(record)


if __name__ == "__main__":
    main()
