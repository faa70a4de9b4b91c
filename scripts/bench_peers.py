#!/usr/bin/env python3
"""Compares moec and coremltools in writing one MoE layer as a Core ML package, in one run, on any machine.

    .venv/bin/python scripts/bench_peers.py [--hidden 2048 --experts 16 --ff 2048] [--palettes] [--json]

Writes a checkpoint of one mixtral layer: seeded bf16 in the Hugging Face layout, with small attention, vocabulary and heads,
so that all but a few MB are experts. Then makes packages of it in two separate processes:

    moec         moec export CHECKPOINT --target ane --tokens 1: the whole model, with attention and head
    coremltools  reads the same file with numpy, widens bf16 to f32, rounds to f16, builds the same layer op by
                 op with the MIL builder, converts it for iOS 18 without loading it, and saves the package

With --palettes, both store the experts as 4-bit palettes shared by 16 output rows (moec: --weights experts=int4-lut:g16;
coremltools: palettize_weights on its package, by one-dimensional k-means).

Wall time covers the whole process, including start and imports; memory is its peak resident set (ru_maxrss). Both read
the checkpoint from the page cache, which is warm because the script has just written the file. The script first checks
that both packages have the same number of convolutions and the same weight bytes, except for the router, which moec
writes in two halves.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np

from bench.measured import measure

REPO = pathlib.Path(__file__).resolve().parent.parent
CHUNK = 1 << 24  # random elements at a time
TOP_K = 2
EPS = 1e-5
HEAD_DIM = 64
VOCAB = 256
PALETTE_BITS, PALETTE_ROWS = 4, 16
SMALLEST_EXPERT = 1 << 18  # elements; router and attention matrices have fewer


# ---- The checkpoint ----------------------------------------------------------------------------------------

def config_of(shape):
    return {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
        "hidden_size": shape.hidden, "intermediate_size": shape.ff, "num_local_experts": shape.experts,
        "num_experts_per_tok": TOP_K, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "rms_norm_eps": EPS,
        "rope_theta": 10000.0, "max_position_embeddings": 64, "sliding_window": None,
        "tie_word_embeddings": False,
    }


def tensor_shapes(shape):
    layer, d, f = "model.layers.0.", shape.hidden, shape.ff
    shapes = {
        "model.embed_tokens.weight": (VOCAB, d),
        layer + "input_layernorm.weight": (d,),
        layer + "self_attn.q_proj.weight": (HEAD_DIM, d),
        layer + "self_attn.k_proj.weight": (HEAD_DIM, d),
        layer + "self_attn.v_proj.weight": (HEAD_DIM, d),
        layer + "self_attn.o_proj.weight": (d, HEAD_DIM),
        layer + "post_attention_layernorm.weight": (d,),
        layer + "block_sparse_moe.gate.weight": (shape.experts, d),
    }
    for e in range(shape.experts):
        expert = f"{layer}block_sparse_moe.experts.{e}."
        shapes |= {expert + "w1.weight": (f, d), expert + "w3.weight": (f, d), expert + "w2.weight": (d, f)}
    return {**shapes, "model.norm.weight": (d,), "lm_head.weight": (VOCAB, d)}


def write_checkpoint(folder, shape):
    """Writes config.json and model.safetensors; returns the size of model.safetensors in bytes."""
    (folder / "config.json").write_text(json.dumps(config_of(shape)))
    header, at = {}, 0
    for name, dims in tensor_shapes(shape).items():
        end = at + 2 * int(np.prod(dims))
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, dims in tensor_shapes(shape).items():
            count, scale = int(np.prod(dims)), dims[-1] ** -0.5
            for begin in range(0, count, CHUNK):
                values = rng.standard_normal(min(CHUNK, count - begin), np.float32) * np.float32(scale)
                (values.view(np.uint32) >> 16).astype(np.uint16).tofile(file)
        return file.tell()


class Checkpoint:
    """Tensors of a memory-mapped model.safetensors, as f16."""

    def __init__(self, folder):
        path = folder / "model.safetensors"
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            self.header = json.loads(file.read(size))
        self.data = np.memmap(path, np.uint8, "r", offset=8 + size)

    def __getitem__(self, name):
        begin, end = self.header[name]["data_offsets"]
        bits = self.data[begin:end].view(np.uint16).reshape(self.header[name]["shape"])
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float16)


# ---- The peer ----------------------------------------------------------------------------------------------

def build_layer(shape, weights):
    """Builds the same layer as moec's MoE shard: norm, router with exact top-k by ranks, experts, residual."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    f16 = np.float16
    layer = "model.layers.0."
    experts = shape.experts

    def conv(x, weight, name):
        return mb.conv(x=x, weight=weight[:, :, None, None], name=name)

    def route(x):
        logits = conv(x, weights[layer + "block_sparse_moe.gate.weight"], "router")
        scores = mb.softmax(x=logits, axis=1)
        rows = mb.reshape(x=scores, shape=(1, 1, experts, 1))
        columns = mb.reshape(x=scores, shape=(1, experts, 1, 1))
        earlier = np.tril(np.ones((experts, experts), f16), -1)[None, :, :, None]
        better = mb.cast(x=mb.greater(x=rows, y=columns), dtype="fp16")
        equal = mb.mul(x=mb.cast(x=mb.equal(x=rows, y=columns), dtype="fp16"), y=earlier)
        rank = mb.reduce_sum(x=mb.add(x=better, y=equal), axes=[2], keep_dims=True)
        chosen = mb.cast(x=mb.less(x=rank, y=f16(TOP_K)), dtype="fp16")
        kept = mb.mul(x=scores, y=chosen)
        return mb.real_div(x=kept, y=mb.reduce_sum(x=kept, axes=[1], keep_dims=True))

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, shape.hidden, 1, 1), dtype=types.fp16)],
                opset_version=ct.target.iOS18)
    def program(hidden):
        both = mb.concat(values=[hidden, mb.mul(x=hidden, y=f16(-1))], axis=1)
        normed = mb.layer_norm(x=both, axes=[1], epsilon=f16(EPS))
        normed = mb.slice_by_size(x=normed, begin=[0, 0, 0, 0], size=[1, shape.hidden, 1, 1])
        gain = weights[layer + "post_attention_layernorm.weight"]
        normed = mb.mul(x=normed, y=gain.reshape(1, -1, 1, 1))
        routing, total = route(normed), hidden
        for e in range(experts):
            expert = f"{layer}block_sparse_moe.experts.{e}."
            gate = conv(normed, weights[expert + "w1.weight"], f"gate_{e}")
            up = conv(normed, weights[expert + "w3.weight"], f"up_{e}")
            inner = mb.mul(x=mb.mul(x=gate, y=mb.sigmoid(x=gate)), y=up)
            down = conv(inner, weights[expert + "w2.weight"], f"down_{e}")
            weight = mb.slice_by_size(x=routing, begin=[0, e, 0, 0], size=[1, 1, 1, 1])
            total = mb.add(x=total, y=mb.mul(x=down, y=weight))
        return mb.identity(x=total, name="moe_out")

    return program


def in_palettes(model):
    """Returns the model with its large matrices, which are the experts, as palettes."""
    import coremltools.optimize.coreml as optimize

    config = optimize.OpPalettizerConfig(mode="kmeans", nbits=PALETTE_BITS, granularity="per_grouped_channel",
                                         group_size=PALETTE_ROWS, weight_threshold=SMALLEST_EXPERT)
    return optimize.palettize_weights(model, optimize.OptimizationConfig(global_config=config))


def run_peer(folder, out, shape, palettes):
    import coremltools as ct

    model = ct.convert(build_layer(shape, Checkpoint(folder)), convert_to="mlprogram",
                       minimum_deployment_target=ct.target.iOS18, compute_units=ct.ComputeUnit.CPU_ONLY,
                       skip_model_load=True)
    (in_palettes(model) if palettes else model).save(str(out))


# ---- Measuring ---------------------------------------------------------------------------------------------

def package_facts(package):
    """Properties that must be equal in both packages."""
    from coremltools.proto import Model_pb2

    data = package / "Data/com.apple.CoreML"
    model = Model_pb2.Model()
    model.ParseFromString((data / "model.mlmodel").read_bytes())
    (function,) = model.mlProgram.functions.values()
    (block,) = function.block_specializations.values()
    convs = sum(operation.type == "conv" for operation in block.operations)
    return {"convs": convs, "weight_bytes": (data / "weights/weight.bin").stat().st_size}


def compare(shape, binary, folder, palettes):
    checkpoint, out, peer = folder / "checkpoint", folder / "out", folder / "peer.mlpackage"
    checkpoint.mkdir()
    size = write_checkpoint(checkpoint, shape)
    results = {"shape": vars(shape), "checkpoint_bytes": size}
    weights = ["--weights", f"experts=int{PALETTE_BITS}-lut:g{PALETTE_ROWS}"] if palettes else []
    results["moec"] = measure([str(binary), "export", str(checkpoint), "--out", str(out), "--target", "ane",
                               "--tokens", "1", "--max-shard-mb", "none", "--quiet", *weights])
    results["coremltools"] = measure([sys.executable, __file__, "--peer", str(checkpoint), str(peer),
                                      "--hidden", str(shape.hidden), "--experts", str(shape.experts),
                                      "--ff", str(shape.ff), *(["--palettes"] if palettes else [])])
    ours = package_facts(out / "moe/L00.t1.mlpackage") | results["moec"]
    theirs = package_facts(peer) | results["coremltools"]
    results |= {"moec": ours, "coremltools": theirs}
    # moec splits the router into two halves, which adds one convolution and its weights.
    same_weights = abs(ours["weight_bytes"] - theirs["weight_bytes"]) < 0.005 * ours["weight_bytes"]
    if ours["convs"] != theirs["convs"] + 1 or not same_weights:
        sys.exit(f"the packages have different layers: {ours} and {theirs}")
    results["ratio"] = {key: theirs[key] / ours[key] for key in ("seconds", "peak_bytes")}
    return results


def print_table(results):
    shape = results["shape"]
    print(f"one MoE layer, hidden {shape['hidden']}, {shape['experts']} experts, ff {shape['ff']}: "
          f"{results['checkpoint_bytes'] / 1e6:.0f} MB of bf16")
    print(f"{'':12} {'seconds':>9} {'peak MB':>9} {'convs':>6} {'weight MB':>10}")
    for name in ("moec", "coremltools"):
        row = results[name]
        print(f"{name:12} {row['seconds']:9.2f} {row['peak_bytes'] / 1e6:9.0f} {row['convs']:6} "
              f"{row['weight_bytes'] / 1e6:10.1f}")
    print(f"{'ratio':12} {results['ratio']['seconds']:8.1f}x {results['ratio']['peak_bytes']:8.1f}x")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--ff", type=int, default=2048)
    parser.add_argument("--palettes", action="store_true", help="store the experts as 4-bit palettes")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--moec", type=pathlib.Path, default=REPO / "build/release/frontends/moec")
    parser.add_argument("--peer", nargs=2, type=pathlib.Path, metavar=("CHECKPOINT", "PACKAGE"),
                        help="internal: only make coremltools' package, in the measured process")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    shape = argparse.Namespace(hidden=arguments.hidden, experts=arguments.experts, ff=arguments.ff)
    if arguments.peer:
        return run_peer(*arguments.peer, shape, arguments.palettes)
    if not arguments.moec.is_file():
        sys.exit(f"{arguments.moec} does not exist: run cmake --preset release && ninja -C build/release moec")
    with tempfile.TemporaryDirectory() as folder:
        results = compare(shape, arguments.moec, pathlib.Path(folder),
                          arguments.palettes)
    print(json.dumps(results, indent=2)) if arguments.json else print_table(results)


if __name__ == "__main__":
    main()
