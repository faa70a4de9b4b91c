#!/usr/bin/env python3
"""Runs an exported folder with onnxruntime alone, as an example for writing a runtime.

It reads only manifest.json and has no model-specific code; backends/manifest/manifest.fbs documents the fields. The
tokenizers package encodes text with the tokenizer.json of the export.

    pip install numpy onnx onnxruntime tokenizers
    moec export models/tinymoe --out out/tinymoe --tokens 1,16
    scripts/run_with_onnxruntime.py out/tinymoe --prompt "def " --max-tokens 60
    scripts/run_with_onnxruntime.py out/qnn --prompt "def " --provider QNN=backend_path=libQnnHtp.so

Graphs of several token widths share one copy of their weights, mapped from the export's files. This requires `--form
matmul`, because onnxruntime reorders the weights of convolutions per session. Sharing is slower, because matrices are
not packed for the kernels; --packed keeps packed copies, one per width.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

try:
    import onnxruntime
except ImportError:  # run_with_litert.py uses only the parts that do not need it
    onnxruntime = None

CPU = "CPUExecutionProvider"
DTYPES = {"f32": np.float32, "f16": np.float16}


# Layout → axis of the T tokens: [1, C, T, 1], [1, C, 1, T] and [T, C]. The first two are transposed rows.
TOKEN_AXES = {"channels": 2, "bc1s": 3, "rows": 0, "plain": 0}


def token_axis(port):
    if port["layout"] not in TOKEN_AXES:
        raise ValueError(f"port {port['name']} has the layout {port['layout']}, which this script does not support")
    return TOKEN_AXES[port["layout"]]


def pack(rows, port):
    """Converts rows [n, C] to the port's layout and type, padded with zeros to its T tokens."""
    axis = token_axis(port)
    padded = np.zeros((port["dims"][axis], rows.shape[1]), DTYPES[port["dtype"]])
    padded[: len(rows)] = rows
    return np.ascontiguousarray(padded.T if axis > 0 else padded).reshape(port["dims"])


def unpack(tensor, port, count):
    """Rows [count, C] of the first `count` tokens of an output; all later tokens are padding."""
    axis = token_axis(port)
    if axis > 0:
        tensor = tensor.reshape(port["dims"][1], port["dims"][axis]).T
    return tensor[:count]


def find_provider(text):
    """Parses "NAME[=KEY=VALUE,…]" to (name, options); NAME may omit "ExecutionProvider". Raises ValueError."""
    name, _, rest = text.partition("=")
    known = onnxruntime.get_available_providers()
    found = [full for full in known if full.lower() in (name.lower(), f"{name.lower()}executionprovider")]
    if not found:
        raise ValueError(f"this onnxruntime has no provider {name}; it has {', '.join(known)}: install the package of the "
                         "vendor, such as onnxruntime-qnn or onnxruntime-openvino")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    for key, equals, _ in pairs:
        if not equals:
            raise ValueError(f"--provider {text}: {key} has no value; write NAME=KEY=VALUE,KEY=VALUE")
    return found[0], {key: value for key, _, value in pairs}


def threads_of(count):
    """Session options with `count` threads. All sessions share one pool: with separate pools, waiting sessions would spin
    on all cores and make steps through many sessions about 30 times slower."""
    options = onnxruntime.SessionOptions()
    if count == 1 or not hasattr(onnxruntime, "set_global_thread_pool_sizes"):
        options.intra_op_num_threads = count
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return options
    if not threads_of.pool:
        onnxruntime.set_global_thread_pool_sizes(count, 1)  # once per process, before the first session
        threads_of.pool = True
    options.use_per_session_threads = False
    return options


threads_of.pool = False


class Weights:
    """Initializers of all graphs, mapped once from the export's data files."""

    def __init__(self):
        self.mapped = {}  # (file, offset) → (value, array that it refers to)

    def give(self, path, options):
        """Adds a graph's external initializers to the session options."""
        import onnx  # not required with packed copies

        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            entry = {pair.key: pair.value for pair in tensor.external_data}
            place = (path.parent / entry["location"], int(entry.get("offset", 0)))
            if place not in self.mapped:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
                array = np.memmap(place[0], dtype, "c", place[1], tuple(tensor.dims))
                self.mapped[place] = (onnxruntime.OrtValue.ortvalue_from_numpy(array), array)
            options.add_initializer(tensor.name, self.mapped[place][0])


class Runner:
    """The shards of a folder and the state of one sequence. `skip_idle_groups` skips groups of experts that no token
    picked; `threads` is the number of onnxruntime's threads, 0 for its default; `top_k` names a top-k variant, empty for
    the first one; `provider` comes from find_provider(), with the CPU as fallback; `packed` trades memory for speed (see
    above)."""

    format, target = "onnx", "onnx"  # of the manifest and of moec export

    def __init__(self, folder, skip_idle_groups=True, threads=0, top_k="", provider=(CPU, {}), packed=True):
        self.provider, self.threads, self.packed = provider, threads, packed
        self.weights = Weights()
        self.folder, self.skip_idle_groups = Path(folder), skip_idle_groups
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        format = self.manifest["build"]["format"]
        if format != self.format:
            raise ValueError(f"{folder} holds {format} files: export with --target {self.target}")
        self.check_node(self.manifest.get("node"))
        self.top_k = self.form_named(top_k)
        self.shards = {shard["name"]: shard for shard in self.manifest["shards"]}
        self.embedding = self.open_table(self.manifest["embedding"])
        rope = self.manifest.get("rope")
        self.rope = self.open_table(rope["table"]) if rope else None
        self.sessions = {}
        self.reset()

    def check_node(self, node):
        """Rejects a node of moec split that cannot run alone: one without all layers, or one without masks in the graphs, whose
        routers could pick experts that the node lacks."""
        if node and node["stages"] > 1:
            raise ValueError(f"{self.folder} lacks some layers: it is stage {node['stage']} of {node['stages']}")
        if node and node["experts"] != self.manifest["build"]["expert_mask"]:
            raise ValueError(f"the graphs may pick experts that node {node['name']} lacks: export with --expert-mask "
                             f"'{node['experts']}', then split, or run the node with moec run")

    def form_named(self, name):
        """Maps layers to experts per token for a top-k variant; empty if the export has none."""
        forms = self.manifest.get("top_k", {}).get("forms", [])
        named = [form for form in forms if name in ("", form["name"])]
        if name and not named:
            raise ValueError(f"there is no top-k variant named {name}; the export has "
                             f"{', '.join(form['name'] for form in forms) or 'none: export with --top-k'}")
        return {layer["layer"]: layer["top_k"] for layer in named[0]["layers"]} if named else {}

    def width_of(self, shard, count):
        """The graph of a shard for `count` tokens and the selected top-k variant."""
        wanted = [self.top_k[layer] for layer in shard["moe_layers"]] if self.top_k else None
        return next(width for width in shard["widths"]
                    if width["tokens"] >= count and width.get("top_k", wanted) == wanted)

    def open_table(self, table):
        """Rows of a table, mapped from its file."""
        shape = (table["rows"], table["columns"])
        return np.memmap(self.folder / table["file"]["path"], DTYPES[table["dtype"]], "r", 0, shape)

    def reset(self):
        """Starts a new sequence."""
        self.position = self.skipped_steps = 0
        self.caches = {}  # (layer, "k" or "v") → [1, kv_heads, S, head_dim or value_dim]
        self.histories = {}  # layer → rows of the last tokens
        self.states = {}  # layer → the state of a recurrent mixer, zeros before the first token
        for cache in self.manifest["caches"]:
            for kind, dims in (("k", cache["head_dim"]), ("v", cache["value_dim"])):
                shape = (1, cache["kv_heads"], cache["rows"], dims)
                self.caches[cache["layer"], kind] = np.zeros(shape, DTYPES[cache["dtype"]])
            shape = (cache["history_tokens"], cache["history_channels"])
            self.histories[cache["layer"]] = np.zeros(shape, DTYPES[cache["dtype"]])

    def session(self, width):
        """onnxruntime's session for a file, opened on first use."""
        path = width["file"]["path"]
        if path not in self.sessions:
            self.sessions[path] = self.open_session(self.folder / path)
        return self.sessions[path]

    def open_session(self, path):
        name, settings = self.provider
        options = threads_of(self.threads)
        if name == CPU and not self.packed:
            options.add_session_config_entry("session.disable_prepacking", "1")
            self.weights.give(path, options)
        providers = [(name, settings)] + [CPU] * (name != CPU)
        session = onnxruntime.InferenceSession(path, options, providers=providers)
        if session.get_providers()[0] != name:  # onnxruntime silently skips a provider that it cannot load
            raise ValueError(f"{name} did not start: check its options and libraries")
        return session

    def attention_mask(self, port, window, chunk, ahead, count):
        """Returns the mask of a port: 0 for visible keys, otherwise the manifest's masked_value. Keys are the S rows of
        the cache, if there is one, then the new tokens, of which `count` are not padding. `window` and `ahead` limit
        how many tokens back and forward a token sees; `chunk` is the size of chunks that cannot see one another (0: no
        limit)."""
        tokens, keys = port["dims"][2:]
        context = keys - tokens
        slot = np.arange(keys)[None, :]
        query = self.position + np.arange(tokens)[:, None]
        is_new = slot >= context
        at = np.where(is_new, self.position + slot - context, slot)  # the key's position
        seen = (is_new | (slot < self.position)) & (at <= query + ahead)
        if ahead > 0:
            seen &= slot < context + count
        if window > 0:
            seen &= at > query - window
        if chunk > 0:
            seen &= at // chunk == query // chunk
        mask = np.where(seen, 0, self.manifest["masked_value"])
        return mask.astype(DTYPES[port["dtype"]]).reshape(port["dims"])

    def rope_columns(self, source, rotation):
        """First column and number of columns of a source in the table of positions. Each rotation has its cosines, then its
        sines; the scale of the queries follows after all rotations."""
        widths = self.manifest["rope"]["widths"]
        if source == "query_scale":
            return 2 * sum(widths), 1
        return 2 * sum(widths[:rotation]) + (widths[rotation] if source == "rope_sin" else 0), widths[rotation]

    def input(self, binding, port, edges, count):
        """The input tensor of a port, from a binding of the schedule."""
        source = binding["source"]
        if source == "edge":
            return pack(edges[binding["edge"]], port)
        if source in ("rope_cos", "rope_sin", "query_scale"):
            first, width = self.rope_columns(source, binding["rotation"])
            return pack(self.rope[self.position : self.position + count, first : first + width], port)
        if source == "attn_mask":
            return self.attention_mask(port, binding["window"], binding["chunk"], binding["ahead"], count)
        if source in ("k_cache", "v_cache"):
            return self.caches[binding["layer"], source[0]]
        if source == "history":
            return pack(self.histories[binding["layer"]], port)
        if source == "recurrent_state":
            return self.states.setdefault(binding["layer"], np.zeros(port["dims"], DTYPES[port["dtype"]]))
        if source == "token_mask":
            return pack(np.ones((count, 1)), port)
        raise ValueError(f"the manifest has the unsupported input source '{source}'")

    def may_skip(self, step, shard, edges):
        """True if no token picked an expert of this group. Known before the group runs only with --routing host."""
        if not (self.skip_idle_groups and step["skip_from"]):
            return False
        edge = {binding["port"]: binding["edge"] for binding in step["inputs"]}
        first = shard["first_expert"]
        experts = shard["expert_ids"] or range(first, first + shard["experts"])
        return not edges[edge["routing_weights"]][:, list(experts)].any()

    def run_step(self, step, edges, count):
        """Runs one step of the schedule for `count` tokens at the current position. Reads inputs from `edges`, adds outputs
        there, and stores cache rows. Returns the logits of a head shard's slice, otherwise None."""
        shard = self.shards[step["shard"]]
        if self.may_skip(step, shard, edges):
            given = next(b["edge"] for b in step["inputs"] if b["port"] == step["skip_from"])
            taken = next(b["edge"] for b in step["outputs"] if b["port"] == step["skip_to"])
            edges[taken] = edges[given]
            self.skipped_steps += 1
            return None
        width = self.width_of(shard, count)
        ports = {port["name"]: port for port in width["inputs"] + width["outputs"]}
        feeds = {b["port"]: self.input(b, ports[b["port"]], edges, count)
                 for b in step["inputs"]}
        names = [binding["port"] for binding in step["outputs"]]
        logits = None
        for binding, tensor in zip(step["outputs"], self.session(width).run(names, feeds)):
            if binding["sink"] in ("k_rows", "v_rows"):
                cache = self.caches[binding["layer"], binding["sink"][0]]
                cache[:, :, self.position : self.position + count] = tensor[:, :, :count]
                continue
            if binding["sink"] == "recurrent_state":
                self.states[binding["layer"]] = tensor
                continue
            rows = unpack(tensor, ports[binding["port"]], count)
            if binding["sink"] == "edge":
                edges[binding["edge"]] = rows
            elif binding["sink"] == "history_rows":
                history = self.histories[binding["layer"]]
                history[:] = np.concatenate([history, rows])[len(rows):]
            else:
                logits = rows
        return logits

    def feed(self, tokens):
        """Runs tokens that follow the tokens of earlier calls; returns their logits [n, vocab]."""
        logits = []
        most = self.manifest["build"]["tokens"][-1]
        if self.manifest["build"]["cache"] == "none" and len(tokens) > most:
            raise ValueError(f"attention is bidirectional: export with --tokens {len(tokens)}")
        for begin in range(0, len(tokens), most):
            chunk = tokens[begin : begin + most]
            if self.position + len(chunk) > self.manifest["build"]["context"]:
                raise ValueError("the context is full: export with a larger --context")
            edges = {"embed": self.embedding[chunk]}
            slices = {step["shard"]: self.run_step(step, edges, len(chunk))
                      for step in self.manifest["schedule"]}
            order = [part["shard"] for part in self.manifest["logits"]["slices"]]
            logits.append(np.concatenate([slices[shard] for shard in order], axis=1))
            self.position += len(chunk)
        return np.concatenate(logits)

    def generate(self, prompt, count):
        """Yields up to `count` tokens, each with the largest logit; stops if the model ends the text."""
        tokens = list(prompt)
        ends = self.manifest["model"]["eos_tokens"]
        for _ in range(count):
            token = int(self.feed(tokens)[-1].argmax())
            if token in ends:
                return
            yield token
            tokens = [token]


class Bytes:
    """Encoder for models whose tokens are bytes, according to the manifest."""

    def encode(self, text):
        return list(text.encode())

    def decode(self, tokens):
        yield from (bytes([token]) for token in tokens)


class Tokenizer:
    """Encoder with the tokenizer.json of an export."""

    def __init__(self, path):
        import tokenizers  # not required for token ids

        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        # The file may contain truncation and padding, which transformers does not apply.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.stream = tokenizers.decoders.DecodeStream(skip_special_tokens=False)

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def decode(self, tokens):
        for token in tokens:
            text = self.stream.step(self.tokenizer, token)  # None if the character needs more tokens
            yield (text or "").encode()


class Ids:
    """Encoder for token ids."""

    def encode(self, text):
        return [int(token) for token in text.split(",")]

    def decode(self, tokens):
        yield from (b"%d " % token for token in tokens)


def tokenizer_of(runner):
    """The tokenizer of a folder; None if it has no tokenizer.json."""
    if runner.manifest["tokenizer"] == "bytes":
        return Bytes()
    if "tokenizer.json" in [file["path"] for file in runner.manifest["carried"]]:
        return Tokenizer(runner.folder / "tokenizer.json")
    return None


def encode_prompt(tokenizer, text, manifest):
    """Token ids of the text. Raises ValueError if there are none, or more than fit the context."""
    tokens = tokenizer.encode(text)
    if not tokens:
        raise ValueError("the prompt is empty: pass at least one token")
    vocab, context = manifest["model"]["vocab"], manifest["build"]["context"]
    for token in tokens:
        if not 0 <= token < vocab:
            raise ValueError(f"token {token} is outside the vocabulary of {vocab}")
    if len(tokens) > context:
        raise ValueError(f"{len(tokens)} tokens exceed the context of {context}: export with a larger --context")
    return tokens


def write_text(args, runner, parser):
    if runner.manifest["model"]["task"] != "text_generation":
        parser.error("this model labels tokens and generates no text: use `moec run`")
    tokenizer = Ids() if args.prompt is None else tokenizer_of(runner)
    if tokenizer is None:
        parser.error("the export has no tokenizer.json: pass --prompt-tokens")
    text = args.prompt_tokens if args.prompt is None else args.prompt
    tokens = encode_prompt(tokenizer, text, runner.manifest)
    count = min(args.max_tokens, runner.manifest["build"]["context"] - len(tokens) + 1)
    start = time.perf_counter()
    for piece in tokenizer.decode(runner.generate(tokens, count)):
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    rate = count / (time.perf_counter() - start)
    print(f"\n{rate:.1f} tokens/s, {runner.skipped_steps} steps skipped", file=sys.stderr)


def run_command(description, add_options, open_runner):
    """Main function of this script and of run_with_litert.py, which differ in options and runners."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="exported folder")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="text to continue; prints text")
    prompt.add_argument("--prompt-tokens", help="token ids to continue, such as 17,4; prints token ids")
    parser.add_argument("--max-tokens", type=int, default=60, help="maximum number of generated tokens (default: 60)")
    parser.add_argument("--threads", type=int, default=0, help="threads (default: the engine's)")
    parser.add_argument("--top-k", default="", help="top-k variant, by its name in the manifest (default: the first)")
    add_options(parser)
    args = parser.parse_args()
    try:
        write_text(args, open_runner(args), parser)
    except (OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def add_options(parser):
    parser.add_argument("--provider", default=CPU, metavar="NAME[=KEY=VALUE,…]",
                        help="execution provider of onnxruntime, with its options (default: the CPU)")
    parser.add_argument("--packed", action="store_true", help="keep packed copies of weights per width")


def open_runner(args):
    if onnxruntime is None:
        raise ValueError("the package onnxruntime is missing: install it with pip")
    return Runner(args.folder, threads=args.threads, top_k=args.top_k, provider=find_provider(args.provider),
                  packed=args.packed)


def main():
    run_command(__doc__, add_options, open_runner)


if __name__ == "__main__":
    main()
