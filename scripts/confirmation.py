"""Common parts of the scripts that check an export with a vendor's compiler and emulator: confirm_with_qnn.py,
confirm_with_rknn.py, confirm_with_litert.py and confirm_with_litert_qnn.py.

A compiler has `unit` (the name of the NPU in a target's file), `machine()` (the head of measured.json) and
`compile(path)`, which returns (session or None, the file's entry of measured.json). A session has onnxruntime's
`run(names, feeds)`. With `takes_all`, an op on another unit is a failure. Compilers that may place ops on the CPU set
`takes_all` to false; then only moec check --measured compares placement with the prediction.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from running.steps import ShardRunner

FORMAT, VERSION = "moec-measured-placement", 1
MIN_COSINE = 0.999  # of an output in the emulator relative to the CPU; other picked experts result in a lower cosine


@contextmanager
def redirected(descriptors, log):
    """Redirects the given descriptors, to which native code writes, to the file `log`."""
    kept = [os.dup(one) for one in descriptors]
    sys.stdout.flush()
    sys.stderr.flush()
    for one in descriptors:
        os.dup2(log.fileno(), one)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for one, copy in zip(descriptors, kept):
            os.dup2(copy, one)
            os.close(copy)


def captured(run, descriptors=(2,)):
    """Returns the result of `run` (None if it raises) and its output, including that of native code."""
    with tempfile.TemporaryFile() as log:
        with redirected(descriptors, log):
            try:
                result = run()
            except Exception as error:  # the libraries' exceptions have no common base class
                result = None
                os.write(descriptors[0], f"\n{error}".encode())
        log.seek(0)
        return result, log.read().decode(errors="replace")


def cosine(got, wanted):
    """Returns the cosine of two arrays: 1 if both are zero, -1 if a value is not finite in only one of them."""
    got, wanted = (np.asarray(values, np.float64).ravel() for values in (got, wanted))
    finite = np.isfinite(wanted)
    if not np.array_equal(np.isfinite(got), finite):
        return -1.0
    norms = np.linalg.norm(got[finite]) * np.linalg.norm(wanted[finite])
    return float(got[finite] @ wanted[finite] / norms) if norms > 0 else float(np.array_equal(got, wanted))


class Pair:
    """Runs a file on the CPU and in the emulator, records the cosine, and returns the CPU's results."""

    def __init__(self, cpu, npu, note):
        self.cpu, self.npu, self.note = cpu, npu, note

    def run(self, names, feeds):
        wanted = self.cpu.run(names, feeds)
        self.note(names, self.npu.run(names, feeds), wanted)
        return wanted


def place_of(width):
    """Identifies a graph: its file, and its function if the file has several graphs."""
    path, function = width["file"]["path"], width["function"]
    return f"{path}#{function}" if function else path


class Emulated(ShardRunner):
    """A ShardRunner whose shards run in the emulator."""

    def __init__(self, folder, compiler):
        super().__init__(folder)
        self.compiler = compiler
        self.graphs = {}  # place_of() → entry of measured.json

    def compile(self, width):
        return self.compiler.compile(self.folder / width["file"]["path"])

    def compared(self):
        """A runner that runs each shard in the emulator and in the reference."""
        from run_with_onnxruntime import Runner  # LiteRT's environment lacks onnxruntime

        class OnCpu(Compared, Runner):
            """Runs each shard in onnxruntime, too."""

        return OnCpu(self)

    def session(self, width):
        place = place_of(width)
        if place not in self.sessions:
            self.sessions[place], self.graphs[place] = self.compile(width)
            if self.sessions[place] is None:
                raise ValueError(f"{place}: {self.graphs[place]['error']}")
        return self.sessions[place]


class Compared(ShardRunner):
    """A runner on the CPU that also runs each shard in the emulator, on the same inputs. The next base class of a subclass
    is the runner of the reference."""

    reference = "onnxruntime's CPU provider"

    def __init__(self, emulated):
        super().__init__(emulated.folder, skip_idle_groups=False, threads=1)
        self.emulated = emulated
        self.worst = {}  # place_of() → minimum cosine over outputs

    def session(self, width):
        place = place_of(width)

        def note(names, got, wanted):
            least = min(cosine(*pair) for pair in zip(got, wanted))
            self.worst[place] = min(least, self.worst.get(place, 1.0))

        return Pair(super().session(width), self.emulated.session(width), note)


def read_tensors(path):
    """Reads the arrays of a safetensors file."""
    dtypes = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[begin:][slice(*entry["data_offsets"])],
                                dtypes[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def read_steps(golden, manifest):
    """Returns (token ids, golden logits or None) per step."""
    if golden is None:
        count = min(16, manifest["build"]["context"], manifest["build"]["tokens"][-1])
        return [(list(range(count)), None)]
    tensors = read_tensors(golden / "golden.safetensors")
    names = [step["name"] for step in json.loads((golden / "golden.json").read_text())["steps"]]
    return [(tensors[f"{name}.tokens"].tolist(), tensors[f"{name}.logits"]) for name in names]


def run_chains(emulated, steps):
    """Runs the steps on the CPU and in the emulator; returns the entry of the whole model in measured.json."""
    compared = emulated.compared()
    wanted = [compared.feed(tokens) for tokens, _ in steps]
    emulated.reset()
    got = np.concatenate([emulated.feed(tokens) for tokens, _ in steps])
    references = [cpu if golden is None else golden for cpu, (_, golden) in zip(wanted, steps)]
    reference = np.concatenate(references)
    return compared.worst, {
        "reference": compared.reference if steps[0][1] is None else "golden",
        "rows": len(got),
        "same_top1": int((got.argmax(1) == reference.argmax(1)).sum()),
        "cosine": cosine(got, reference),
    }


def widths_of(manifest):
    return [(shard, width) for shard in manifest["shards"] for width in shard["widths"]]


def with_progress(items, name):
    """Yields the items. Shows their number, the time left and name(item) in one line if stderr is a terminal."""
    start = time.monotonic()
    for done, item in enumerate(items):
        if sys.stderr.isatty():
            left = int((time.monotonic() - start) / done * (len(items) - done)) if done else None
            line = f"confirm {100 * done // len(items):3} %" + (
                f", {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left" if done else "")
            line += f", {done} of {len(items)} graphs: {name(item)}"
            print(f"\r\x1b[K{line[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}", end="", file=sys.stderr,
                  flush=True)
        yield item
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measure(emulated, golden, run):
    """Returns measured.json without its head. Runs the shards if all of them compile."""
    graphs = []
    for shard, width in with_progress(widths_of(emulated.manifest), lambda one: place_of(one[1])):
        path, place = width["file"]["path"], place_of(width)
        try:
            emulated.session(width)
        except ValueError as error:
            print(f"{error}", file=sys.stderr)
            run = False
        graphs.append({"shard": shard["name"], "tokens": width["tokens"], "digest": width["file"]["digest"],
                       "path": path, "function": width["function"], **emulated.graphs[place]})
    if not run:
        return {"graphs": graphs}
    worst, chain = run_chains(emulated, read_steps(golden, emulated.manifest))
    for graph in graphs:
        place = place_of({"file": {"path": graph["path"]}, "function": graph["function"]})
        if place in worst:
            graph["cosine"] = worst[place]
    return {"chain": chain, "graphs": graphs}


def list_contexts(compiler, manifest, folder, files, **more):
    """Writes contexts.json: the compiled files with their digests, and the files of the export that were compiled."""
    files = [{"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size,
              "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in sorted(files)]
    sources = [{"path": width["file"]["path"], "digest": width["file"]["digest"]} for _, width in widths_of(manifest)]
    report = {"format": "moec-context-binaries", "version": 1, "machine": compiler.machine(), **more, "sources": sources,
              "files": files}
    (folder / "contexts.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {len(files)} files, {sum(file['bytes'] for file in files)} bytes, to {folder}")


def report_on(measured, compiler, min_cosine):
    """Prints the differences; returns True if there are none."""
    unit = compiler.unit
    elsewhere = [(graph, op) for graph in measured["graphs"] for op in graph["ops"] if op["preferred"] != unit]
    for graph, op in elsewhere if compiler.takes_all else ():
        print(f"{graph['shard']} T={graph['tokens']} {op['name']} ({op['op']}): {op['preferred']}: {op['message']}")
    failed = [graph for graph in measured["graphs"] if "error" in graph]
    far = [graph for graph in measured["graphs"] if graph.get("cosine", 1.0) < min_cosine]
    for graph in far:
        print(f"{graph['shard']} T={graph['tokens']}: cosine {graph['cosine']:.6f} against the CPU provider")
    ops = sum(len(graph["ops"]) for graph in measured["graphs"])
    print(f"{ops - len(elsewhere)} of {ops} ops on {unit}; {len(failed)} of {len(measured['graphs'])} files rejected")
    if "chain" in measured:
        chain, least = measured["chain"], min(graph.get("cosine", 1.0) for graph in measured["graphs"])
        print(f"emulator: minimum cosine of a shard {least:.6f}; chained {chain['same_top1']} of {chain['rows']} top-1 "
              f"as the {chain['reference']}, cosine {chain['cosine']:.6f}")
    return not (elsewhere and compiler.takes_all or failed or far)


def add_arguments(parser, target, chips, chip):
    """Adds the arguments of all engines, which `moec confirm` forwards."""
    parser.add_argument("out", type=Path, help=f"a folder that `moec export --target {target}` wrote")
    parser.add_argument("--chip", default=chip, choices=chips, help=f"the chip to compile for (default: {chip})")
    parser.add_argument("--golden", type=Path, help="golden folder that provides tokens and reference logits")
    parser.add_argument("--measured", type=Path, default=Path("measured.json"),
                        help="the file to write (default: measured.json)")
    parser.add_argument("--context-binaries", type=Path, metavar="DIR",
                        help="also write compiled files and their digests (contexts.json) to this folder")
    parser.add_argument("--no-run", dest="run", action="store_false", help="compile only")
    parser.add_argument("--min-cosine", type=float, default=MIN_COSINE,
                        help=f"minimum cosine of an output in the emulator (default: {MIN_COSINE})")


def confirm(compiler, args, runner=Emulated):
    """Measures an export and writes measured.json. If requested and every file compiles, also writes the compiled files.
    Returns True if all checks pass."""
    emulated = runner(args.out, compiler)
    measured = {"format": FORMAT, "version": VERSION, "machine": compiler.machine(),
                **measure(emulated, args.golden, args.run)}
    args.measured.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    good = report_on(measured, compiler, args.min_cosine)
    if args.context_binaries and not any("error" in graph for graph in measured["graphs"]):
        compiler.write_contexts(emulated, args.context_binaries)
    return good


def run(parser, open_compiler, runner=Emulated):
    """Main function of the scripts; `runner` is a kind of Emulated. Returns 0 if all checks pass, otherwise 1; exits with 2
    if the input is invalid."""
    args = parser.parse_args()
    try:
        return 0 if confirm(open_compiler(args.chip), args, runner) else 1
    except (OSError, ValueError, KeyError) as error:
        parser.exit(2, f"error[confirm.input]: {error}\n")
