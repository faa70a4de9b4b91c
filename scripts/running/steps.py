"""Steps through an exported folder by its manifest, with any engine."""

import json
from pathlib import Path

import numpy as np

from running.ports import DTYPES, pack, unpack


class ShardRunner:
    """The shards of a folder and the state of one sequence, without an engine. A subclass implements open_session(),
    session() or run_graph(). `skip_idle_groups` skips groups of experts that no token picked; `top_k` names a top-k
    variant, empty for the first one."""

    format, target = "onnx", "onnx"  # of the manifest and of moec export

    def __init__(self, folder, skip_idle_groups=True, top_k=""):
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
            raise ValueError(f"the export has no top-k variant {name}; it has "
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
        """The session of a file, opened on first use."""
        path = width["file"]["path"]
        if path not in self.sessions:
            self.sessions[path] = self.open_session(self.folder / path)
        return self.sessions[path]

    def open_session(self, path):
        """Opens a file. A session has onnxruntime's run(names, feeds), which returns the outputs `names`."""
        raise NotImplementedError

    def run_graph(self, shard, width, names, feeds):
        """The outputs `names` of a shard's graph."""
        return self.session(width).run(names, feeds)

    def attention_mask(self, port, binding, count):
        """Returns the mask of a port, [pages, 1, T, keys]: 0 for visible keys, otherwise the manifest's masked_value. Keys are
        the rows of the cache, if there is one, in all pages. With cache forms append and none, the new tokens follow, of
        which `count` are not padding. The binding limits how many tokens back (window) and forward (ahead) a token sees;
        `chunk` is the size of chunks that cannot see one another (0: no limit)."""
        window, chunk, ahead = (binding[key] for key in ("window", "chunk", "ahead"))
        pages, _, tokens, keys = port["dims"]
        blend = self.manifest["build"]["cache"] == "blend"
        context = pages * keys if blend else keys - tokens
        slot = np.arange(pages * keys)[None, :]
        query = self.position + np.arange(tokens)[:, None]
        is_new = slot >= context
        at = np.where(is_new, self.position + slot - context, slot)  # the key's position
        seen = (is_new | (slot < self.position + count * blend)) & (at <= query + ahead)
        if ahead > 0:
            seen &= slot < context + count
        if window > 0:
            seen &= at > query - window
        if chunk > 0:
            seen &= at // chunk == query // chunk
        mask = np.where(seen, 0, self.manifest["masked_value"]).astype(DTYPES[port["dtype"]])
        return np.ascontiguousarray(mask.reshape(tokens, pages, keys).swapaxes(0, 1)).reshape(port["dims"])

    def write_mask(self, port, count):
        """Returns the mask [pages, 1, rows, T] that selects the cache row of each new token."""
        pages, _, rows, tokens = port["dims"]
        mask = np.zeros((pages * rows, tokens), DTYPES[port["dtype"]])
        mask[self.position + np.arange(count), np.arange(count)] = 1
        return mask.reshape(port["dims"])

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
            return self.attention_mask(port, binding, count)
        if source == "kv_write_mask":
            return self.write_mask(port, count)
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
        for binding, tensor in zip(step["outputs"], self.run_graph(shard, width, names, feeds)):
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
