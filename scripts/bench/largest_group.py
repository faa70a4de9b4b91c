#!/usr/bin/env python3
"""Finds, by bisection, the largest group of experts that Qualcomm's compiler finalises, with its time and memory.

    scripts/install_vendors.sh qnn
    build/vendors/qnn/bin/python scripts/bench/largest_group.py [--chip v75] [--width 768] [--least 0] [--most 512]

A group is an MoE shard of one token with seeded experts of Qwen3-30B-A3B's sizes (2048 by 768, 9.4 MB in f16) or of
another --width. Each group is compiled in a separate process limited to --memory-gb; a failure with a peak near this
limit is a limit of the machine, not of the compiler. Prints one line per group. The rules Q10 and Q11 of
backends/targets/qnn.json record the results.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
CONFIG = SCRIPTS.parent / "models/published/qwen3-30b-a3b.json"


def export(moec, experts, width, folder):
    """Returns the MoE shard's file and the bytes of its weights."""
    config = json.loads(CONFIG.read_text()) | {"num_experts": experts, "moe_intermediate_size": width,
                                               "num_hidden_layers": 1, "vocab_size": 512}
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run([moec, "export", folder / "config.json", "--out", folder / "out", "--quiet", "--target", "qnn",
                    "--seeded-weights", "7", "--tokens", "1", "--context", "64", "--max-shard-mb", "none"],
                   check=True, stderr=subprocess.DEVNULL)
    shards = json.loads((folder / "out/manifest.json").read_text())["shards"]
    moe = max(shards, key=lambda shard: shard["weight_bytes"])
    return folder / "out" / moe["widths"][0]["file"]["path"], moe["weight_bytes"]


def compile_alone(path, chip, memory_gb):
    """Compiles in a separate process, which prints seconds, peak bytes and the compiler's error as JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_gb * 10**9,) * 2)
    sys.path.insert(0, str(SCRIPTS))
    import confirm_with_qnn
    from confirmation import captured

    compiler = confirm_with_qnn.Compiler(chip)
    began = time.process_time()
    session, log = captured(lambda: compiler.session(path))
    print(json.dumps({"seconds": time.process_time() - began,
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "error": None if session else log.strip().splitlines()[-1]}))


def finalises(args, experts):
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        path, weights = export(args.moec, experts, args.width, Path(name))
        command = [sys.executable, __file__, "--chip", args.chip, "--memory-gb", str(args.memory_gb), "--compile", path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    found = json.loads(said[-1]) if said else {"error": f"ended with {done.returncode}, probably out of memory"}
    figures = "" if "peak" not in found else f", {found['seconds']:.0f} CPU seconds, peak {found['peak'] / 1e9:.1f} GB"
    print(f"{experts} experts, {weights / 1e6:.0f} MB{figures}: {found['error'] or 'finalised'}", flush=True)
    return found["error"] is None


def bisect(args):
    """Bisects between a group that finalises and one that does not. The first trial is --first."""
    good, bad = args.least, args.most + 1
    trial = min(args.first or args.most, args.most)
    while bad - good > 1:
        if finalises(args, trial):
            good = trial
        else:
            bad = trial
        trial = (good + bad) // 2
    print(f"largest group: {good} experts" + (" (the maximum of this run)" if good == args.most else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, default=SCRIPTS.parent / "build/release/frontends/moec")
    parser.add_argument("--chip", default="v75")
    parser.add_argument("--width", type=int, default=768, help="expert width (default: 768)")
    parser.add_argument("--most", type=int, default=512, help="experts of the largest group to try (default: 512)")
    parser.add_argument("--least", type=int, default=0, help="experts of a group known to finalise (default: 0)")
    parser.add_argument("--first", type=int, help="experts of the first group to try (default: --most)")
    parser.add_argument("--memory-gb", type=int, default=20, help="memory limit of a compilation (default: 20)")
    parser.add_argument("--folder", help="folder of the exports (default: the temporary folder)")
    parser.add_argument("--compile", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compile:
        compile_alone(args.compile, args.chip, args.memory_gb)
    else:
        bisect(args)


if __name__ == "__main__":
    main()
