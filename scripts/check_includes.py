#!/usr/bin/env python3
"""Proves the include arrows: which folder may include which, and where a library's headers stay.

    scripts/check_includes.py [ROOT [TABLE]]

TABLE (scripts/arrows.json) has a row per folder and a row per library. CMake links the libraries of the
folders by the same rows. Prints `file:line: error` for each wrong #include and exits with 1, or prints
how many includes it checked and exits with 0. It checks that

- a folder includes only the folders of its row, all of which are above it in the table, so that a circle
  of folders is impossible;
- no row names a folder or a library that its folder does not use;
- no job includes another job;
- no file of a folder includes one that includes it, directly or through others; a header and the source
  of the same name count as one file;
- a library's header is included only in the folders that adapt the library, and a header of ours that
  includes one (directly or through another) only from its own folder.

Tests may include anything.
"""

import json
import pathlib
import re
import sys

EVERYTHING = None
ROOT = pathlib.Path(__file__).parent.parent
TABLE = ROOT / "scripts" / "arrows.json"
JOBS = "frontends/jobs/"

# What every folder may use: the vocabulary of the whole tree, the system, what the build generates. Names
# of JSON's types may be in headers; the library itself may not.
COMMON = re.compile(
    r"fmt/.*|tl/expected\.hpp|nlohmann/json_fwd\.hpp|embedded/.*|[a-z_]+|sys/.*"
    r"|(fcntl|unistd|errno|signal|dirent|netdb)\.h|arpa/inet\.h"
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".def"}


def includes_of(path):
    """(line number, quoted?, included path) for each #include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1] == '"', found[2]


def unit_of(path):
    """A header and its source are one unit: what it includes is what either does."""
    return path.rsplit(".", 1)[0]


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


class Table:
    """The rows of arrows.json. A folder whose row is ["*"] may include every folder, as tests may."""

    def __init__(self, path):
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.name = pathlib.Path(path).name
        self.arrows = {f: EVERYTHING if used == ["*"] else used for f, used in rows["folders"].items()}
        self.arrows["tests"] = EVERYTHING
        self.libraries = rows["libraries"]

    def folder_of(self, path):
        """The row of a path; frontends/cli/main belongs to frontends/cli."""
        folder = path.rsplit("/", 1)[0]
        if folder.startswith("tests/"):
            return "tests"
        return folder if folder in self.arrows else {"frontends/cli/main": "frontends/cli"}.get(folder)

    def library_of(self, header):
        return next((name for name in self.libraries if header.startswith(name)), None)

    def errors(self):
        """Errors of the rows themselves: their order, and jobs that include jobs."""
        above = set()
        for folder, included in self.arrows.items():
            for other in included or []:
                if folder.startswith(JOBS) and other.startswith(JOBS):
                    yield f"{self.name}: the job {folder} may not include the job {other}"
                elif other not in above:
                    yield f"{self.name}: {folder} is above {other}, which it may include"
            above.add(folder)


class Tree:
    def __init__(self, root, table):
        self.root, self.table = pathlib.Path(root), table
        tops = sorted({name.split("/")[0] for name in table.arrows})
        files = (f for top in tops for f in sorted((self.root / top).rglob("*")))
        self.includes = {
            str(f.relative_to(self.root)): list(includes_of(f)) for f in files if f.suffix in SOURCES
        }
        self.used = set()  # (folder, included folder) and (library, folder)

    def adapted(self, header, seen=()):
        """The library that a header of ours brings in, directly or through others; or None."""
        for _, _, path in self.includes.get(header, []):
            if library := self.table.library_of(path):
                return library
            if path in self.includes and path not in seen:
                if library := self.adapted(path, (*seen, header)):
                    return library
        return None

    def errors(self):
        for file, includes in self.includes.items():
            folder = self.table.folder_of(file)
            if folder is None:
                yield f"{file}:1: this folder has no row in {self.table.name}"
                continue
            for line, quoted, path in includes:
                if message := self.wrong(folder, quoted, path):
                    yield f"{file}:{line}: {message}"
        yield from self.circles()
        yield from self.unused()

    def unused(self):
        """An error for each entry of a row that no file needs."""
        for folder, included in self.table.arrows.items():
            for other in included or []:
                if (folder, other) not in self.used:
                    yield f"{self.table.name}: {folder} may include {other} but does not"
        for library, folders in self.table.libraries.items():
            for folder in folders:
                if (library, folder) not in self.used:
                    yield f"{self.table.name}: {folder} may include {library} but does not"

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
        if library := self.table.library_of(path):
            self.used.add((library, folder))
            if folder == "tests" or folder in self.table.libraries[library]:
                return None
            places = ", ".join(self.table.libraries[library]) or "tests"
            return f"{path} is a header of a library that stays in {places}"
        if path in self.includes:
            return self.wrong_arrow(folder, path)
        if quoted and not COMMON.fullmatch(path):
            return f"{path} does not exist from the root of the repository"
        if not COMMON.fullmatch(path):
            return f"{path} is a header of a library without a row in {self.table.name}"
        return None

    def wrong_arrow(self, folder, path):
        target = self.table.folder_of(path)
        self.used.add((folder, target))
        if folder == target or folder == "tests":
            return None
        if self.table.arrows[folder] is not EVERYTHING and target not in self.table.arrows[folder]:
            return f"{folder} may not include {target} ({path})"
        if library := self.adapted(path):
            return f"{path} brings {library} out of {target}, the folder that adapts it"
        return None


def main(root=ROOT, table=TABLE):
    rows = Table(table)
    tree = Tree(root, rows)
    errors = [*rows.errors(), *tree.errors()]
    print("\n".join(errors) or f"{sum(map(len, tree.includes.values()))} includes follow the arrows")
    return 1 if errors or not tree.includes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
