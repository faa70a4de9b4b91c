#!/usr/bin/env python3
"""Checks the include rules: the folders that each folder may include, and the folders that may include a library's
headers.

    scripts/check_includes.py [ROOT [TABLE]]

TABLE (scripts/arrows.json) has a row per folder and a row per library. CMake links the folders' libraries according to
the same rows. Prints `file:line: error` for each wrong #include and exits with 1, or prints how many includes it
checked and exits with 0. It checks that

- a folder includes only the folders of its row, all of which are above it in the table, so that cycles between
  folders are impossible;
- no row names a folder or a library that the row's folder does not use;
- no job includes another job;
- no file of a folder includes a file that includes it, directly or indirectly; a header and its source are one unit;
- a library's header is included only in the folders of the library's row, directly or through headers of ours.

Tests may include anything.
"""

import functools
import json
import pathlib
import re
import sys

EVERYTHING = None
ROOT = pathlib.Path(__file__).parent.parent
TABLE = ROOT / "scripts" / "arrows.json"
JOBS = "frontends/jobs/"

# Headers that every folder may include: the tree's common vocabulary, the system, and generated files. The forward
# declarations of the JSON library are allowed, the library itself is not.
COMMON = re.compile(
    r"fmt/.*|tl/expected\.hpp|nlohmann/json_fwd\.hpp|embedded/.*|[a-z_]+|sys/.*"
    r"|(fcntl|unistd|errno|signal|dirent|netdb)\.h|arpa/inet\.h"
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".def"}


def includes_of(path):
    """Yields (line number, quoted?, included path) for each #include of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1] == '"', found[2]


def unit_of(path):
    """Returns the unit of a path. A header and its source form one unit, with the includes of both."""
    return path.rsplit(".", 1)[0]


def way_back(arrows, begin, end):
    """The units on a path from `begin` to `end` along the arrows; empty if there is no path."""
    ways, seen = [[begin]], {begin}
    for way in ways:
        if way[-1] == end:
            return way
        following = [unit for unit in arrows.get(way[-1], {}) if unit not in seen]
        seen.update(following)
        ways += [[*way, unit] for unit in following]
    return []


class Table:
    """The rows of arrows.json. A folder with the row ["*"] may include every folder, like tests."""

    def __init__(self, path):
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.name = pathlib.Path(path).name
        self.arrows = {f: EVERYTHING if used == ["*"] else used for f, used in rows["folders"].items()}
        self.arrows["tests"] = EVERYTHING
        self.libraries = rows["libraries"]

    def folder_of(self, path):
        """The row that applies to a path; frontends/cli/main belongs to frontends/cli."""
        folder = path.rsplit("/", 1)[0]
        if folder.startswith("tests/"):
            return "tests"
        return folder if folder in self.arrows else {"frontends/cli/main": "frontends/cli"}.get(folder)

    def library_of(self, header):
        return next((name for name in self.libraries if header.startswith(name)), None)

    def errors(self):
        """Errors in the rows: their order, and jobs that include jobs."""
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
        self.adapted = functools.cache(self.libraries_in)

    def libraries_in(self, header):
        """The libraries that one of our headers includes, directly or indirectly."""
        libraries, seen, todo = set(), set(), [header]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            for _, _, path in self.includes.get(current, []):
                library = self.table.library_of(path)
                libraries |= {library} if library else set()
                todo.append(path)
        return sorted(libraries)

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
        """One error per entry of a row that no file uses."""
        for folder, included in self.table.arrows.items():
            for other in included or []:
                if (folder, other) not in self.used:
                    yield f"{self.table.name}: {folder} may include {other} but does not"
        for library, folders in self.table.libraries.items():
            for folder in folders:
                if (library, folder) not in self.used:
                    yield f"{self.table.name}: {folder} may include {library} but does not"

    def circles(self):
        """One error per include that closes a cycle within a folder."""
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
        self.used |= {(library, folder) for library in self.adapted(path)}
        for library in self.adapted(path):
            if folder not in self.table.libraries[library]:
                return f"{path} exposes {library} outside of {target}, the folder that adapts it"
        return None


def main(root=ROOT, table=TABLE):
    rows = Table(table)
    tree = Tree(root, rows)
    errors = [*rows.errors(), *tree.errors()]
    print("\n".join(errors) or f"{sum(map(len, tree.includes.values()))} includes follow the arrows")
    return 1 if errors or not tree.includes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
