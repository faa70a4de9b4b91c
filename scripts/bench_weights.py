#!/usr/bin/env python3
"""Measures time and memory of onnxruntime on one MoE layer, for several storage forms of its experts.

    scripts/bench_weights.py [MOEC]

The layer has 16 experts of Qwen3-30B-A3B's sizes (2048 x 768) with random weights, and runs one token. Each form runs in a
separate process with one thread; times are CPU time, the minimum of 30 runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
FORMS = {
    "f32, matmul": ["--form", "matmul"],
    "f32, conv": ["--form", "conv"],
    "int8, conv": ["--form", "conv", "--weights", "experts=int8"],
    "int4": ["--weights", "experts=int4"],
    "int4, level 4": ["--weights", "experts=int4", "--accuracy-level", "4"],
}
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
    "moe_intermediate_size": 768, "intermediate_size": 6144, "num_experts": 16, "num_experts_per_tok": 4,
    "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 1000,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "hidden_act": "silu", "attention_bias": False,
}


def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def measure(graph):
    """Returns milliseconds of CPU time per run, and MiB of the session."""
    import time

    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    before = resident_mib()
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    inputs = {port.name: random.standard_normal(port.shape).astype(np.float32) for port in session.get_inputs()}
    times = []
    for _ in range(30):
        began = time.process_time()
        session.run(None, inputs)
        times.append(time.process_time() - began)
    return {"ms": min(times) * 1e3, "mib": resident_mib() - before}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moec", nargs="?", default=str(REPO / "build/release/frontends/moec"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return print(json.dumps(measure(arguments.measure)))
    first = None
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        for name, flags in FORMS.items():
            out = Path(folder) / "out"
            subprocess.run([arguments.moec, "export", config, "--target", "onnx", "--seeded-weights", "1", "--out", out,
                            "--quiet", "--force", *flags], check=True, stdout=subprocess.DEVNULL)
            graph = next((out / "moe").glob("*.onnx"))
            done = subprocess.run([sys.executable, __file__, "--measure", graph], check=True, capture_output=True)
            found = json.loads(done.stdout)
            first = first or found
            print(f"{name:14} {found['ms']:7.2f} ms, {first['ms'] / found['ms']:5.2f} x as fast;"
                  f" {found['mib']:6.1f} MiB, {found['mib'] / first['mib']:4.2f} of the first")


if __name__ == "__main__":
    main()
