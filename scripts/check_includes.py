#!/usr/bin/env python3
"""Proves the include arrows: which folder may include which, and where a library's headers stay.

    scripts/check_includes.py [ROOT]

Prints `file:line: what is wrong` for each wrong #include and exits with 1, or prints how many includes
it looked at and exits with 0. It checks that

- a folder includes only the folders that ARROWS gives it, all of which are above it in the table, so
  that no circle of folders is possible;
- no file of a folder includes one that includes it, directly or through others, where a header and the
  source of the same name count as one file;
- a library's header is included only in the folder that adapts the library, and a header of ours that
  includes one (directly or through another) only from its own folder.

Tests may include anything.
"""

import pathlib
import re
import sys

EVERYTHING = None

IR = ["ir/base", "ir/graph", "ir/text", "ir/verify", "ir/plan", "ir/analysis", "ir/target"]
MODELS = ["models/families", "models/published", "models/gguf", "models/tensors", "models/build", "models/plan"]
BACKENDS = [
    "backends/weights", "backends/weights/encode", "backends/files", "backends/calibration", "backends/reference", "backends/targets", "backends/manifest",
    "backends/onnx", "backends/coreml", "backends/gguf", "backends/safetensors", "backends/output", "backends/coverage", "backends/residency",
    "backends/runtime", "backends/openvino", "backends/openvino/module",
]  # fmt: skip
READERS = ["frontends/hf", "frontends/gguf", "frontends/source", "frontends/onnx", "frontends/coreml"]
FORMATS = ["frontends/formats"]
AS_GGUF = ["frontends/as_gguf"]
REPORT = ["frontends/report"]
BELOW_JOBS = IR + BACKENDS + READERS + FORMATS + REPORT
JOBS = [
    "frontends/export", "frontends/calibrate", "frontends/analyze", "frontends/residency", "frontends/split", "frontends/upcycle", "frontends/check", "frontends/validate",
    "frontends/compare", "frontends/plan",
    "frontends/inspect", "frontends/run", "frontends/serve", "frontends/opt", "frontends/family",
]  # fmt: skip

# Folder -> folders of ours that it may include besides itself, the lowest folder first. A folder with
# C++ must be in the table.
ARROWS = {
    "ir/base": [],
    "ir/graph": ["ir/base"],
    "ir/text": ["ir/base", "ir/graph"],
    "ir/verify": ["ir/base", "ir/graph", "ir/text"],
    "ir/plan": ["ir/base", "ir/graph"],
    "ir/analysis": ["ir/base", "ir/graph", "ir/text", "ir/verify"],
    "ir/target": ["ir/base", "ir/graph", "ir/plan", "ir/analysis"],
    "passes": IR,
    "models/families": IR,
    "models/published": IR,
    "models/gguf": IR,
    "models/tensors": IR,
    "models/build": [*IR, "models/tensors"],
    "models/plan": [*IR, "models/tensors", "models/build"],
    "backends/weights": IR,
    "backends/weights/encode": [*IR, "backends/weights"],
    "backends/files": [*IR, "backends/weights", "backends/weights/encode"],
    "backends/calibration": [*IR, "backends/weights/encode", "backends/files"],
    "backends/reference": [*IR, "backends/weights", "backends/weights/encode"],
    "backends/targets": IR,
    "backends/manifest": [*IR, "backends/files"],
    "backends/onnx": [*IR, "backends/weights", "backends/files"],
    "backends/coreml": [*IR, "backends/weights", "backends/files"],
    "backends/gguf": [*IR, "backends/weights", "backends/weights/encode", "backends/files"],
    "backends/safetensors": [*IR, "backends/files"],
    "backends/output": [*IR, "backends/files", "backends/manifest"],
    "backends/coverage": [*IR, "backends/weights", "backends/files", "backends/manifest"],
    "backends/residency": IR,
    "backends/runtime": [*IR, "backends/weights", "backends/files", "backends/manifest", "backends/reference", "backends/residency"],
    "backends/openvino": [*IR, "backends/weights", "backends/files", "backends/manifest", "backends/reference", "backends/runtime"],
    "backends/openvino/module": ["ir/base", "ir/graph", "backends/openvino"],
    "frontends/process": ["ir/base"],
    "frontends/report": ["ir/base"],
    "frontends/hf": IR + MODELS,
    "frontends/gguf": [*IR, *MODELS, "frontends/hf"],
    "frontends/source": [*IR, *MODELS, "frontends/hf", "frontends/gguf"],
    "frontends/onnx": IR + MODELS,
    "frontends/coreml": IR + MODELS,
    "frontends/formats": IR + BACKENDS + READERS,
    "frontends/as_gguf": [*IR, *MODELS, *BACKENDS, *READERS],
    "frontends/export": ["passes", *MODELS, *BELOW_JOBS, *AS_GGUF],
    "frontends/calibrate": [*MODELS, *BELOW_JOBS],
    "frontends/analyze": [*MODELS, *BELOW_JOBS, "frontends/calibrate"],
    "frontends/split": [*MODELS, *BELOW_JOBS],
    "frontends/upcycle": [*MODELS, *BELOW_JOBS, "frontends/calibrate"],
    "frontends/check": BELOW_JOBS,
    "frontends/validate": BELOW_JOBS,
    "frontends/compare": [*BELOW_JOBS, "frontends/validate", "frontends/analyze"],
    "frontends/residency": [*MODELS, *BELOW_JOBS, "frontends/analyze", "frontends/validate", "frontends/compare"],
    "frontends/plan": ["passes", *MODELS, *BELOW_JOBS, "frontends/export"],
    "frontends/inspect": [*MODELS, *BELOW_JOBS],
    "frontends/run": BELOW_JOBS,
    "frontends/serve": [*BELOW_JOBS, "frontends/run"],
    "frontends/opt": ["passes", *IR, *REPORT],
    "frontends/family": [*MODELS, *BELOW_JOBS],
    "frontends/cli/flags": [
        "passes", *MODELS, *BELOW_JOBS, "frontends/export", "frontends/plan", "frontends/calibrate", "frontends/analyze",
        "frontends/residency", "frontends/split", "frontends/upcycle", "frontends/inspect",
    ],
    "frontends/cli/print": ["passes", "frontends/process", *MODELS, *BELOW_JOBS, *JOBS],
    "frontends/cli": EVERYTHING,
    "tests": EVERYTHING,
}  # fmt: skip

# Start of a library's include path -> folders that may use it.
LIBRARIES = {
    "onnx/": ["backends/onnx", "frontends/onnx"],
    "google/protobuf/": [
        "backends/files", "backends/onnx", "frontends/onnx", "backends/coreml", "frontends/coreml",
    ],
    "mlmodel.pb.h": ["backends/coreml", "frontends/coreml"],
    "flatbuffers/": ["backends/manifest"],
    "manifest_generated.h": ["backends/manifest"],
    "Eigen/": ["backends/reference", "backends/weights/encode"],
    "CLI/": ["frontends/cli/flags", "frontends/cli"],
    # json.cc reads; the others write: reports lie beside their jobs, and commands only print them.
    "nlohmann/json.hpp": [
        "ir/base", "backends/calibration", "backends/output", "frontends/report", "frontends/export", "frontends/calibrate",
        "frontends/analyze", "frontends/residency", "frontends/split", "frontends/upcycle",
        "frontends/check", "frontends/validate", "frontends/compare", "frontends/plan", "frontends/inspect", "frontends/run",
        "frontends/serve", "frontends/opt", "frontends/family", "frontends/cli",
    ],
    "httplib.h": ["frontends/serve"],
    "xxhash.h": ["backends/files"],
    "xxh_x86dispatch.h": ["backends/files"],
    "immintrin.h": ["backends/weights", "backends/weights/encode"],
    "cpuid.h": ["backends/weights"],
    "openssl/": ["backends/files"],
    "spawn.h": ["backends/files"],
    "openvino/": ["backends/openvino/module"],
    "dlfcn.h": ["backends/openvino"],
    "pthread.h": [],
    "malloc.h": ["ir/base"],
    "gtest/": [],
    "gmock/": [],
    "benchmark/": [],
}  # fmt: skip

# What every folder may use: the vocabulary of the whole tree, the system, what the build generates. Names
# of JSON's types may be in headers; the library itself may not.
COMMON = re.compile(
    r"fmt/.*|tl/expected\.hpp|nlohmann/json_fwd\.hpp|embedded/.*|[a-z_]+|sys/.*"
    r"|(fcntl|unistd|errno|signal|dirent|netdb)\.h|arpa/inet\.h"
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".def"}


def folder_of(path):
    """The entry of ARROWS that a path belongs to; one folder below frontends/cli counts as cli's (main)."""
    folder = path.rsplit("/", 1)[0]
    if folder.startswith("tests/"):
        return "tests"
    return folder if folder in ARROWS else {"frontends/cli/main": "frontends/cli"}.get(folder)


def includes_of(path):
    """(line number, quoted?, included path) for each #include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1] == '"', found[2]


def unit_of(path):
    """A header and its source are one unit: what it includes is what either does."""
    return path.rsplit(".", 1)[0]


def library_of(header):
    return next((name for name in LIBRARIES if header.startswith(name)), None)


def way_back(arrows, begin, end):
    """The units from `begin` to `end` along the arrows; empty when there is no way."""
    ways, seen = [[begin]], {begin}
    for way in ways:
        if way[-1] == end:
            return way
        following = [unit for unit in arrows.get(way[-1], {}) if unit not in seen]
        seen.update(following)
        ways += [[*way, unit] for unit in following]
    return []


def wrong_order():
    """Yields an error for each folder of the table that may include one that is not above it."""
    above = set()
    for folder, included in ARROWS.items():
        for other in [] if included is EVERYTHING else included:
            if other not in above:
                yield f"scripts/check_includes.py: {folder} is above {other}, which it may include"
        above.add(folder)


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        tops = sorted({name.split("/")[0] for name in ARROWS})
        files = (f for top in tops for f in sorted((self.root / top).rglob("*")))
        self.includes = {
            str(f.relative_to(self.root)): list(includes_of(f)) for f in files if f.suffix in SOURCES
        }

    def adapted(self, header, seen=()):
        """The library that a header of ours brings in, directly or through others; or None."""
        for _, _, path in self.includes.get(header, []):
            if library := library_of(path):
                return library
            if path in self.includes and path not in seen:
                if library := self.adapted(path, (*seen, header)):
                    return library
        return None

    def errors(self):
        for file, includes in self.includes.items():
            folder = folder_of(file)
            if folder is None:
                yield f"{file}:1: this folder has no line in ARROWS of scripts/check_includes.py"
                continue
            for line, quoted, path in includes:
                if message := self.wrong(folder, quoted, path):
                    yield f"{file}:{line}: {message}"
        yield from self.circles()

    def circles(self):
        """An error for each include that closes a circle within a folder."""
        arrows = {}  # unit -> {included unit of the same folder: (file, line)}
        for file, includes in self.includes.items():
            for line, _, path in includes:
                same = file.rsplit("/", 1)[0] == path.rsplit("/", 1)[0]
                if same and path in self.includes and unit_of(path) != unit_of(file):
                    arrows.setdefault(unit_of(file), {}).setdefault(unit_of(path), (file, line))
        for unit, included in arrows.items():
            for other, (file, line) in included.items():
                if way := way_back(arrows, other, unit):
                    names = " -> ".join(name.rsplit("/", 1)[1] for name in [unit, *way])
                    yield f"{file}:{line}: a circle of includes: {names}"

    def wrong(self, folder, quoted, path):
        if path.endswith(".cc"):
            return f"{path} is a source, which is compiled and not included"
        if library := library_of(path):
            if folder == "tests" or folder in LIBRARIES[library]:
                return None
            places = ", ".join(LIBRARIES[library]) or "tests"
            return f"{path} is a header of a library that stays in {places}"
        if path in self.includes:
            return self.wrong_arrow(folder, path)
        if quoted and not COMMON.fullmatch(path):
            return f"{path} does not exist from the root of the repository"
        if not COMMON.fullmatch(path):
            return f"{path} is a header of a library without a line in LIBRARIES"
        return None

    def wrong_arrow(self, folder, path):
        target = folder_of(path)
        if folder == target or folder == "tests":
            return None
        if ARROWS[folder] is not EVERYTHING and target not in ARROWS[folder]:
            return f"{folder} may not include {target} ({path})"
        if library := self.adapted(path):
            return f"{path} brings {library} out of {target}, the folder that adapts it"
        return None


def main(root):
    tree = Tree(root)
    errors = [*wrong_order(), *tree.errors()]
    print("\n".join(errors) or f"{sum(map(len, tree.includes.values()))} includes follow the arrows")
    return 1 if errors or not tree.includes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent))
