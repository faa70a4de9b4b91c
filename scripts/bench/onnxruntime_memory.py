#!/usr/bin/env python3
"""Measures memory and time of onnxruntime for a shard of several exports; shows if weights stay quantized in memory.

    scripts/bench/onnxruntime_memory.py SHARD OUT…      e.g. moe/L00 out/f32 out/int8 out/4bit

Prints one line per exported folder: bytes of the shard's data file, resident memory added by its session and runs, and
milliseconds of CPU time per run with its smallest token width, on one thread. Measures each in a separate process.
Requires numpy and onnxruntime.
"""

import json
import pathlib
import subprocess
import sys
import time

RUNS = 20


def resident_bytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measure(graph):
    import numpy as np
    import onnxruntime

    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    before = resident_bytes()
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    inputs = {port.name: random.standard_normal(port.shape).astype(types[port.type]) for port in session.get_inputs()}
    session.run(None, inputs)
    held = resident_bytes() - before
    began = time.process_time()
    for _ in range(RUNS):
        session.run(None, inputs)
    return {"held": held, "ms": (time.process_time() - began) / RUNS * 1000, "version": onnxruntime.__version__}


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--graph":
        print(json.dumps(measure(pathlib.Path(sys.argv[2]))))
        return
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print("file MiB memory MiB ms per run   export")
    for out in map(pathlib.Path, sys.argv[2:]):
        graphs = sorted(out.glob(f"{sys.argv[1]}.t*.onnx"), key=lambda path: int(path.suffixes[-2][2:]))
        if not graphs:
            sys.exit(f"{out} has no shard {sys.argv[1]}")
        done = subprocess.run([sys.executable, __file__, "--graph", graphs[0]], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        found, stored = json.loads(done.stdout), (out / f"{sys.argv[1]}.data").stat().st_size
        print(f"{stored / 2**20:8.1f} {found['held'] / 2**20:10.1f} {found['ms']:10.1f}   {out}")
    print(f"onnxruntime {found['version']}")


if __name__ == "__main__":
    main()
