#!/usr/bin/env python3
"""Proves the include arrows: which folder may include which, and where a library's headers stay.

    scripts/check_includes.py [ROOT]

Prints `file:line: what is wrong` for each wrong #include and exits with 1, or prints how many includes
it looked at and exits with 0. The arrows:

    ir <- passes, models, backends; ir, models <- frontends; all <- frontends/cli, tests

A library's header may be included only in the folder that adapts the library, and a header of ours that
includes one (directly or through another) only from its own folder; tests may include anything.
"""

import pathlib
import re
import sys

EVERYTHING = None

# Folder -> folders of ours that it may include besides itself. A folder with C++ must stand here.
ARROWS = {
    "ir": [],
    "passes": ["ir"],
    "models": ["ir"],
    "backends/weights": ["ir"],
    "backends/reference": ["ir", "backends/weights"],
    "backends/targets": ["ir"],
    "backends/files": ["ir", "backends/weights"],
    "backends/manifest": ["ir", "backends/files"],
    "backends/onnx": ["ir", "backends/weights", "backends/files"],
    "backends/coreml": ["ir", "backends/weights", "backends/files"],
    "frontends/hf": ["ir", "models"],
    "frontends/onnx": ["ir", "models"],
    "frontends/coreml": ["ir", "models"],
    "frontends/cli": EVERYTHING,
    "tests": EVERYTHING,
}

# Start of a library's include path -> folders that may use it.
LIBRARIES = {
    "onnx/": ["backends/onnx", "frontends/onnx"],
    "google/protobuf/": ["backends/onnx", "frontends/onnx", "backends/coreml", "frontends/coreml"],
    "mlmodel.pb.h": ["backends/coreml", "frontends/coreml"],
    "flatbuffers/": ["backends/manifest"],
    "manifest_generated.h": ["backends/manifest"],
    "Eigen/": ["backends/reference"],
    "CLI/": ["frontends/cli"],
    "nlohmann/": ["models", "frontends/hf", "frontends/cli", "backends/manifest", "backends/targets"],
    "xxhash.h": ["backends/files"],
    "xxh_x86dispatch.h": ["backends/files"],
    "immintrin.h": ["backends/weights"],
    "cpuid.h": ["backends/weights"],
    "openssl/": ["backends/files"],
    "dlfcn.h": [],
    "gtest/": [],
    "gmock/": [],
    "benchmark/": [],
}

# What every folder may use: the vocabulary of the whole tree, the system, what the build generates.
COMMON = re.compile(
    r"fmt/.*|tl/expected\.hpp|embedded/.*|[a-z_]+|sys/.*"
    r"|(fcntl|unistd|errno|signal|dirent)\.h"
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".def"}


def folder_of(path):
    """The entry of ARROWS that a path belongs to: the longest that it starts with."""
    parts = path.split("/")
    for length in (2, 1):
        name = "/".join(parts[:length])
        if len(parts) > length and name in ARROWS:
            return name
    return None


def includes_of(path):
    """(line number, quoted?, included path) for each #include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1] == '"', found[2]


def library_of(header):
    return next((name for name in LIBRARIES if header.startswith(name)), None)


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
    errors = list(tree.errors())
    print("\n".join(errors) or f"{sum(map(len, tree.includes.values()))} includes follow the arrows")
    return 1 if errors or not tree.includes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent))
