"""scripts/check_includes.py finds each kind of invalid include and invalid row, with file and line."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_includes.py"

TABLE = {
    "folders": {
        "ir/base": [],
        "ir/graph": ["ir/base"],
        "passes": ["ir/graph"],
        "models/shards": ["ir/graph"],
        "backends/weights": ["ir/graph"],
        "backends/reference": ["backends/weights"],
        "backends/manifest": [],
        "frontends/jobs/check": ["backends/manifest"],
        "frontends/jobs/export": ["models/shards"],
        "frontends/cli": ["*"],
    },
    "libraries": {
        "Eigen/": ["backends/reference"],
        "flatbuffers/": ["backends/manifest"],
        "CLI/": ["frontends/cli"],
        "gtest/": [],
    },
}

RIGHT = {
    "ir/base/nearest.h": "#include <string>\n#include <fmt/format.h>\n",
    "ir/graph/type.h": '#include "ir/base/nearest.h"\n#include <nlohmann/json_fwd.hpp>\n',
    "ir/graph/type.cc": '#include "ir/graph/type.h"\n#include <tl/expected.hpp>\n',
    "ir/graph/shard.h": '#include "ir/graph/type.h"\n',
    "passes/lower.cc": '#include "ir/graph/shard.h"\n',
    "models/shards/build_shard.h": '#include "ir/graph/shard.h"\n',
    "backends/weights/reader.h": '#include "ir/graph/type.h"\n',
    "backends/reference/run.cc": '#include <Eigen/Core>\n#include "backends/weights/reader.h"\n',
    "backends/manifest/door.h": "#include <string>\n",
    "backends/manifest/parser.h": "#include <flatbuffers/idl.h>\n",
    "backends/manifest/inner.h": '#include "backends/manifest/parser.h"\n',
    "backends/manifest/inner.cc": '#include "backends/manifest/inner.h"\n',
    "frontends/jobs/check/check.cc": '#include "backends/manifest/door.h"\n',
    "frontends/jobs/export/export_model.h": '#include "models/shards/build_shard.h"\n',
    "frontends/cli/cli.cc": '#include "frontends/jobs/export/export_model.h"\n#include <CLI/CLI.hpp>\n',
    "frontends/cli/main/moec.cc": '#include "ir/graph/type.h"\n#include "backends/weights/reader.h"\n',
    "tests/a_test.cc": '#include <gtest/gtest.h>\n#include "backends/manifest/inner.h"\n',
}  # fmt: skip


def run(root, files, table=TABLE):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows = root / "arrows.json"
    rows.write_text(json.dumps(table))
    done = subprocess.run([sys.executable, SCRIPT, root, rows], capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


def with_row(part, name, entries):
    return TABLE | {part: TABLE[part] | {name: entries}}


def test_accepts_valid_includes(tmp_path):
    assert run(tmp_path, RIGHT) == (0, "24 includes follow the arrows")


def test_accepts_this_tree():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_checks_every_exposed_library(tmp_path):
    both = {"backends/manifest/parser.h": "#include <flatbuffers/idl.h>\n#include <Eigen/Core>\n",
            "frontends/jobs/check/check.cc": '#include "backends/manifest/inner.h"\n'}  # fmt: skip
    table = with_row("libraries", "flatbuffers/", ["backends/manifest", "frontends/jobs/check"])
    table["libraries"]["Eigen/"] = ["backends/manifest", "backends/reference"]
    assert run(tmp_path, RIGHT | both, table) == (
        1, "frontends/jobs/check/check.cc:1: backends/manifest/inner.h exposes Eigen/ outside of backends/manifest, the "
        "folder that adapts it")  # fmt: skip


def test_rejects_an_empty_tree(tmp_path):
    assert run(tmp_path, {})[0] == 1


@pytest.mark.parametrize(
    "file, text, error",
    [
        # Includes without a row: to a higher layer, to a sibling, and from one job to another.
        ("ir/base/up.cc", '#include "backends/weights/reader.h"\n',
         "ir/base/up.cc:1: ir/base may not include backends/weights (backends/weights/reader.h)"),
        ("passes/a.cc", '\n// why\n#include "backends/weights/reader.h"\n',
         "passes/a.cc:3: passes may not include backends/weights (backends/weights/reader.h)"),
        ("passes/m.cc", '#include "models/shards/build_shard.h"\n',
         "passes/m.cc:1: passes may not include models/shards (models/shards/build_shard.h)"),
        ("backends/weights/side.cc", '#include "backends/manifest/door.h"\n',
         "backends/weights/side.cc:1: backends/weights may not include backends/manifest (backends/manifest/door.h)"),
        ("frontends/jobs/check/job.cc", '#include "frontends/jobs/export/export_model.h"\n',
         "frontends/jobs/check/job.cc:1: frontends/jobs/check may not include frontends/jobs/export "
         "(frontends/jobs/export/export_model.h)"),
        # Cycles within a folder; a header and its source count as one node.
        ("ir/graph/type.h", '#include "ir/base/nearest.h"\n#include "ir/graph/shard.h"\n',
         "ir/graph/shard.h:1: a circle of includes: shard -> type -> shard\n"
         "ir/graph/type.h:2: a circle of includes: type -> shard -> type"),
        ("ir/graph/type.cc", '#include "ir/graph/shard.h"\n',
         "ir/graph/shard.h:1: a circle of includes: shard -> type -> shard\n"
         "ir/graph/type.cc:1: a circle of includes: type -> shard -> type"),
        # Library headers outside the folders that wrap the library.
        ("passes/b.cc", "#include <Eigen/Core>\n",
         "passes/b.cc:1: Eigen/Core is a header of a library that stays in backends/reference"),
        ("ir/base/c.cc", "  #  include <gtest/gtest.h>\n",
         "ir/base/c.cc:1: gtest/gtest.h is a header of a library that stays in tests"),
        ("frontends/cli/d.cc", '#include "backends/manifest/inner.h"\n',
         "frontends/cli/d.cc:1: backends/manifest/inner.h exposes flatbuffers/ outside of "
         "backends/manifest, the folder that adapts it"),
        # Paths that do not exist, included sources, and unknown libraries and folders.
        ("ir/base/e.cc", '#include "ir/typo.h"\n',
         "ir/base/e.cc:1: ir/typo.h does not exist from the root of the repository"),
        ("ir/base/h.cc", '#include "ir/graph/type.cc"\n',
         "ir/base/h.cc:1: ir/graph/type.cc is a source, which is compiled and not included"),
        ("ir/base/f.cc", "#include <boost/any.hpp>\n",
         "ir/base/f.cc:1: boost/any.hpp is a header of a library without a row in arrows.json"),
        ("backends/new/g.cc", "#include <string>\n",
         "backends/new/g.cc:1: this folder has no row in arrows.json"),
        ("ir/k.cc", "#include <string>\n",
         "ir/k.cc:1: this folder has no row in arrows.json"),
    ],
)  # fmt: skip
def test_finds_invalid_includes(tmp_path, file, text, error):
    assert run(tmp_path, RIGHT | {file: text}) == (1, error)


@pytest.mark.parametrize(
    "part, name, entries, error",
    [
        ("folders", "passes", ["ir/graph", "ir/base"], "passes may include ir/base but does not"),
        ("libraries", "Eigen/", ["backends/reference", "passes"], "passes may include Eigen/ but does not"),
        ("folders", "ir/base", ["ir/graph"],
         "ir/base is above ir/graph, which it may include\narrows.json: ir/base may include ir/graph but does not"),
        ("folders", "frontends/jobs/export", ["models/shards", "frontends/jobs/check"],
         "the job frontends/jobs/export may not include the job frontends/jobs/check\n"
         "arrows.json: frontends/jobs/export may include frontends/jobs/check but does not"),
    ],
)  # fmt: skip
def test_finds_invalid_rows(tmp_path, part, name, entries, error):
    assert run(tmp_path, RIGHT, with_row(part, name, entries)) == (1, f"arrows.json: {error}")
