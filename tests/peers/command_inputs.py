"""Small inputs for tests that run every command. A word in capitals in a command names one of them."""

import atexit
import functools
import json
import re
import shutil
import sys

from goldens import REPO
from servers import FakeNode, Server

PROMPT = "def first(items):\n    return items[0]\n"
GROUPS = {"groups": [{"name": "low", "experts": "*:0-7"}, {"name": "high", "experts": "*:8-15"}]}
WIDTHS = ("--tokens", "1,16", "--context", 128)


class Inputs:
    """Makes each input when a command first needs it. NEW is a path that no command has written."""

    TINYMOE, TAGGER = REPO / "models/tinymoe", REPO / "models/tinytagger"
    GOLDEN, TAGGED = REPO / "tests/golden/tinymoe", REPO / "tests/golden/tinytagger"
    DENSE, MIXTRAL, FP8, HYBRID, LATENT, KINDS, SURPLUS, SOFTMAX = (
        REPO / "tests/golden" / case for case in ("qwen3_a", "mixtral_a", "deepseek_v3_c", "granitemoehybrid_a",
                                                  "deepseek_v3_a", "gemma4_a", "kimi_k25_a", "deepseek_v2_b"))
    PROFILE = REPO / "tests/data/tinymoe_profile.json"
    IR = REPO / "tests/passes/lower_router.ir"
    FAMILY = REPO / "models/families/mixtral.json"

    def __init__(self, moec, export, folder):
        self.moec, self.export, self.folder = moec, export, folder
        self.made = 0

    def words(self, command):
        """The words of a command with the paths of its inputs."""
        return [re.sub(r"^[A-Z][A-Z0-9]+(?=/|$)", 
                       lambda name: str(getattr(self, name[0], name[0])), word)
                for word in command.split()]

    def written(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def produced(self, command, *more):
        """The file or folder that a command writes to --out."""
        path = self.NEW
        self.moec(*self.words(command), *more, "--out", path)
        return path

    @property
    def NEW(self):
        self.made += 1
        return self.folder / f"new{self.made}"

    @property
    def FOLDER(self):
        return self.folder

    @functools.cached_property
    def SERVER(self):
        """The URL of a node."""
        return FakeNode().url

    @functools.cached_property
    def SERVERS(self):
        """A file of nodes: a server of the whole export ROUTED, which ends with the tests."""
        server = Server(self.ROUTED)
        atexit.register(server.stop)
        node = {"name": "whole", "url": f"http://127.0.0.1:{server.port}"}
        return self.written("servers.json", json.dumps({"nodes": [node]}))

    @functools.cached_property
    def TEXT(self):
        return self.written("text.txt", PROMPT * 4)

    @functools.cached_property
    def IDS(self):
        return self.written("ids.txt", " ".join(str(token) for token in range(1, 33)))

    @functools.cached_property
    def CLUSTER(self):
        nodes = [{"name": f"machine{i}", "memory": f"{8 - i}MB", "bandwidth": f"{i + 1}GB/s", "link": "1Gbit/s"}
                 for i in range(4)]  # fmt: skip
        return self.written("cluster.json", json.dumps({"nodes": nodes}))

    @functools.cached_property
    def KL(self):
        """The KL of two groups, for forecasts of others."""
        return self.written("kl.json", self.moec(*self.words("compare OUT --groups GROUPS --prompts SUITE --json")))

    @functools.cached_property
    def GROUPS(self):
        return self.written("groups.json", json.dumps(GROUPS))

    @functools.cached_property
    def OUT(self):
        return self.export(self.TINYMOE, *WIDTHS)

    @functools.cached_property
    def TAGS(self):
        return self.export(self.TAGGER, "--tokens", "160")

    @functools.cached_property
    def TAGPARTS(self):
        """With experts in separate shards, top-k variants and a capacity."""
        return self.export(self.TAGGER, "--tokens", "160", "--routing", "host", "--experts-per-shard", 1, "--top-k", "1,2",
                           "--capacity", 1)

    @functools.cached_property
    def PERSON(self):
        return self.written("person.txt", "Call Ms. Nora Lindqvist, 12 Harbor Road, at +49 171 5550123. Thanks!")

    @functools.cached_property
    def ROUTED(self):
        """With routers and experts in separate shards."""
        return self.export(self.TINYMOE, *WIDTHS, "--routing", "host", "--experts-per-shard", 4)

    @functools.cached_property
    def VARIANTS(self):
        """With two top-k variants, and rules that choose one."""
        policy = self.written("policy.json", json.dumps({"battery": [{"below": 0.2, "form": "1"}], "confidence": 0.9,
                                                         "categories": [{"category": "chat", "form": "1"}]}))
        return self.export(self.TINYMOE, *WIDTHS, "--top-k", "1,2", "--top-k-policy", policy, "--routing", "host",
                           "--experts-per-shard", 8)

    @functools.cached_property
    def LIMITED(self):
        return self.export(self.TINYMOE, *WIDTHS, "--capacity", 1)

    @functools.cached_property
    def CODES(self):
        """Weights in 4 bits."""
        return self.export(self.TINYMOE, *WIDTHS, "--weights", "4bit", "--digest", "sha256")

    @functools.cached_property
    def RECORDED(self):
        """With the results of `moec validate` in its manifest."""
        out = self.produced("export TINYMOE --tokens 1,16 --context 128 --quiet")
        self.moec("validate", out, "--golden", self.GOLDEN, "--record")
        return out

    @functools.cached_property
    def IGNORING(self):
        """Of a checkpoint with tensors that no shard needs."""
        return self.export(self.SURPLUS, "--tokens", "1")

    @functools.cached_property
    def PACKED(self):
        """With groups of experts that are not consecutive."""
        place = self.produced("place TINYMOE --nodes 2 --profile PROFILE")
        return self.export(self.TINYMOE, *WIDTHS, "--routing", "host", "--expert-groups", place)

    @functools.cached_property
    def DEVICES(self):
        return self.export(self.TINYMOE, *WIDTHS, "--device", "a=5MB", "--device", "b=5MB")

    @functools.cached_property
    def ANE(self):
        return self.export(self.TINYMOE, *WIDTHS, "--target", "ane")

    @functools.cached_property
    def LITERT(self):
        return self.export(self.TINYMOE, *WIDTHS, "--target", "litert")

    @functools.cached_property
    def GENAI(self):
        return self.export(self.TINYMOE, *WIDTHS, "--target", "ort-genai")

    @functools.cached_property
    def GGUF(self):
        return self.FILES / "tinymoe.gguf"

    @functools.cached_property
    def FILES(self):
        """Without graphs."""
        return self.export(self.TINYMOE, "--target", "gguf")

    @functools.cached_property
    def NODES(self):
        return self.produced("split ROUTED --groups 2 --quiet")

    @functools.cached_property
    def PARTS(self):
        """A GGUF file that is split by experts."""
        return self.produced("split GGUF --groups 2 --quiet")

    @functools.cached_property
    def STATS(self):
        return self.produced("calibrate TINYMOE --text TEXT --window 64 --sensitivity --quiet")

    @functools.cached_property
    def TRACE(self):
        return self.produced("trace OUT --text TEXT --window 64 --quiet")

    @functools.cached_property
    def CHANGING(self):
        """A trace of five windows of 128 tokens, whose experts change after the third."""
        rows = (f"0,{token},{token % 2 if token < 384 else 2 + token % 4},1" for token in range(640))
        return self.written("changing.csv", "\n".join(["layer,token,expert,weight", *rows, ""]))

    @functools.cached_property
    def PACK(self):
        return self.produced("prepack ROUTED --profile PROFILE --capacity 6")

    @functools.cached_property
    def LOADS(self):
        rows = (f"{layer},{expert},{1 if expert else 20}" for layer in range(16) for expert in range(64))
        return self.written("loads.csv", "\n".join(["layer,expert,load", *rows, ""]))

    @functools.cached_property
    def PART(self):
        """A GGUF model whose router has groups."""
        return self.export(self.LATENT, "--target", "gguf", "--tokenizer", "none") / "deepseek_v3_a.gguf"

    # A GGUF model whose routing weights are not normalised, and a profile of its experts.
    @functools.cached_property
    def UNEVEN(self):
        return self.export(self.SOFTMAX, "--target", "gguf", "--tokenizer", "none") / "deepseek_v2_b.gguf"

    @functools.cached_property
    def USED(self):
        return self.produced("analyze SOFTMAX --tokens IDS --window 8 --quiet")

    @functools.cached_property
    def SHORT(self):
        """A GGUF file that ends within its tensors."""
        (self.folder / "short.gguf").write_bytes(self.GGUF.read_bytes()[:-100])
        return self.folder / "short.gguf"

    @functools.cached_property
    def BROKEN(self):
        return self.written("broken.ir", "shard broken model {\n  input\n")

    @functools.cached_property
    def LACKING(self):
        """A checkpoint with one more layer in its config than in its tensors."""
        folder = self.NEW
        shutil.copytree(self.TINYMOE, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
        return folder

    @functools.cached_property
    def DEVICE(self):
        return self.produced("doctor --folder FOLDER --seconds 0")

    @functools.cached_property
    def PROBED(self):
        """With a table of `moec probe`."""
        out = self.produced("export TINYMOE --tokens 64 --context 64 --quiet")
        self.moec("probe", out, "--groups", self.GROUPS, "--prompts", self.SUITE, "--write", "--quiet")
        return out

    @functools.cached_property
    def SUITE(self):
        sums = "12 + 30 = 42\n18 + 21 = 39\n40 + 11 = 51\n7 + 8 = 15\n"
        prompts = [("code", PROMPT * 2), ("code", "class Node:\n    pass\n" * 3), ("sums", sums), ("sums", sums * 2)]
        return self.written("suite.jsonl", "".join(json.dumps({"category": name, "text": text}) + "\n"
                                                   for name, text in prompts))

    @functools.cached_property
    def MEASURED(self):
        """A measurement in which the first op of the first graph runs on another unit."""
        self.moec("check", self.OUT, "--expected")
        graphs = json.loads((self.OUT / "expected_placement.json").read_text())["graphs"]
        for graph in graphs:
            graph["ops"] = [{"name": op["name"], "op": op["op"], "preferred": op["unit"]} for op in graph["ops"]]
            graph["cosine"] = 1.0
        graphs[0]["ops"][0].update(preferred="other", message="made up")
        graphs[1].update(ops=[], error="made up")
        machine = {"chip": "made up", "engine": "made up", "version": "1", "packages": "made up 1"}
        return self.written("measured.json", json.dumps({"format": "moec-measured-placement", "version": 1,
                                                         "machine": machine, "graphs": graphs}))

    @functools.cached_property
    def ENGINE(self):
        """A script in place of a vendor's compiler."""
        return self.written("engine.py", "import shutil, sys\n"
                            f"shutil.copy({str(self.MEASURED)!r}, sys.argv[sys.argv.index('--measured') + 1])\n")

    PYTHON = sys.executable
