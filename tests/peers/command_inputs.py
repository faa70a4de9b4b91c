"""Small inputs for tests that run every command. A word in capitals in a command names one of them."""

import functools
import json
import re
import sys

from goldens import REPO

PROMPT = "def first(items):\n    return items[0]\n"
GROUPS = {"groups": [{"name": "low", "experts": "*:0-7"}, {"name": "high", "experts": "*:8-15"}]}
WIDTHS = ("--tokens", "1,16", "--context", 128)


class Inputs:
    """Makes each input when a command first needs it. NEW is a path that no command has written."""

    TINYMOE, TAGGER = REPO / "models/tinymoe", REPO / "models/tinytagger"
    GOLDEN, TAGGED = REPO / "tests/golden/tinymoe", REPO / "tests/golden/tinytagger"
    DENSE, MIXTRAL, FP8, HYBRID, LATENT = (
        REPO / "tests/golden" / case
        for case in ("qwen3_a", "mixtral_a", "deepseek_v3_c", "granitemoehybrid_a", "deepseek_v3_a"))
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
    def TEXT(self):
        return self.written("text.txt", PROMPT * 4)

    @functools.cached_property
    def IDS(self):
        return self.written("ids.txt", " ".join(str(token) for token in range(1, 33)))

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
    def ROUTED(self):
        """With routers and experts in separate shards."""
        return self.export(self.TINYMOE, *WIDTHS, "--routing", "host", "--experts-per-shard", 4)

    @functools.cached_property
    def VARIANTS(self):
        """With two top-k variants."""
        return self.export(self.TINYMOE, *WIDTHS, "--top-k", "1,2")

    @functools.cached_property
    def LIMITED(self):
        return self.export(self.TINYMOE, *WIDTHS, "--capacity", 1)

    @functools.cached_property
    def CODES(self):
        """Weights in 4 bits."""
        return self.export(self.TINYMOE, *WIDTHS, "--weights", "4bit", "--digest", "sha256")

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
        prompts = [("code", PROMPT * 2), ("sums", "12 + 30 = 42\n18 + 21 = 39\n40 + 11 = 51\n7 + 8 = 15\n" * 2)]
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
        machine = {"chip": "made up", "engine": "made up", "version": "1", "packages": "made up 1"}
        return self.written("measured.json", json.dumps({"format": "moec-measured-placement", "version": 1,
                                                         "machine": machine, "graphs": graphs}))

    @functools.cached_property
    def ENGINE(self):
        """A script in place of a vendor's compiler."""
        return self.written("engine.py", "import shutil, sys\n"
                            f"shutil.copy({str(self.MEASURED)!r}, sys.argv[sys.argv.index('--measured') + 1])\n")

    PYTHON = sys.executable
