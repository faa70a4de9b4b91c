"""scripts/check_includes.py finds each kind of wrong include, and names file and line."""

import importlib
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_includes.py"

RIGHT = {
    "ir/base/nearest.h": "#include <string>\n#include <fmt/format.h>\n",
    "ir/graph/type.h": '#include "ir/base/nearest.h"\n#include <nlohmann/json_fwd.hpp>\n',
    "ir/graph/type.cc": '#include "ir/graph/type.h"\n#include <tl/expected.hpp>\n',
    "ir/graph/shard.h": '#include "ir/graph/type.h"\n',
    "models/build/build_shard.h": '#include "ir/graph/shard.h"\n',
    "backends/weights/reader.h": '#include "ir/graph/type.h"\n',
    "backends/reference/run.cc": '#include <Eigen/Core>\n#include "backends/weights/reader.h"\n',
    "backends/manifest/parser.h": "#include <flatbuffers/idl.h>\n",
    "backends/manifest/inner.h": '#include "backends/manifest/parser.h"\n',
    "backends/manifest/inner.cc": '#include "backends/manifest/inner.h"\n',
    "frontends/export/export_model.h": '#include "models/build/build_shard.h"\n',
    "frontends/cli/flags/export_flags.cc": '#include "frontends/export/export_model.h"\n#include <CLI/CLI.hpp>\n',
    "frontends/cli/cli.h": "",
    "frontends/cli/cli.cc": '#include "ir/graph/type.h"\n#include "backends/weights/reader.h"\n',
    "tests/a_test.cc": '#include <gtest/gtest.h>\n#include "backends/manifest/inner.h"\n',
}  # fmt: skip


def run(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def test_right_includes_pass(tmp_path):
    assert run(tmp_path, RIGHT) == (0, "21 includes follow the arrows")


def test_this_tree_passes():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_tree_fails(tmp_path):
    assert run(tmp_path, {})[0] == 1


@pytest.mark.parametrize(
    "file, text, error",
    [
        # Between the top folders, between the rooms of one, and upwards within frontends.
        ("ir/base/up.cc", '#include "backends/weights/reader.h"\n',
         "ir/base/up.cc:1: ir/base may not include backends/weights (backends/weights/reader.h)"),
        ("passes/a.cc", '\n// why\n#include "backends/weights/reader.h"\n',
         "passes/a.cc:3: passes may not include backends/weights (backends/weights/reader.h)"),
        ("passes/m.cc", '#include "models/build/build_shard.h"\n',
         "passes/m.cc:1: passes may not include models/build (models/build/build_shard.h)"),
        ("ir/base/i.cc", '#include "ir/graph/type.h"\n',
         "ir/base/i.cc:1: ir/base may not include ir/graph (ir/graph/type.h)"),
        ("models/tensors/t.cc", '#include "models/build/build_shard.h"\n',
         "models/tensors/t.cc:1: models/tensors may not include models/build (models/build/build_shard.h)"),
        ("backends/weights/side.cc", '#include "backends/manifest/inner.h"\n',
         "backends/weights/side.cc:1: backends/weights may not include backends/manifest "
         "(backends/manifest/inner.h)"),
        ("frontends/check/job.cc", '#include "frontends/export/export_model.h"\n',
         "frontends/check/job.cc:1: frontends/check may not include frontends/export "
         "(frontends/export/export_model.h)"),
        ("frontends/report/r.cc", '#include "frontends/export/export_model.h"\n',
         "frontends/report/r.cc:1: frontends/report may not include frontends/export "
         "(frontends/export/export_model.h)"),
        ("frontends/export/words.cc", '#include "frontends/cli/cli.h"\n',
         "frontends/export/words.cc:1: frontends/export may not include frontends/cli (frontends/cli/cli.h)"),
        # Circles within a folder; a header and its source are one.
        ("ir/graph/type.h", '#include "ir/graph/type.h"\n#include "ir/graph/shard.h"\n',
         "ir/graph/shard.h:1: a circle of includes: shard -> type -> shard\n"
         "ir/graph/type.h:2: a circle of includes: type -> shard -> type"),
        ("ir/graph/type.cc", '#include "ir/graph/shard.h"\n',
         "ir/graph/shard.h:1: a circle of includes: shard -> type -> shard\n"
         "ir/graph/type.cc:1: a circle of includes: type -> shard -> type"),
        # Libraries outside the folders that adapt them.
        ("passes/b.cc", "#include <Eigen/Core>\n",
         "passes/b.cc:1: Eigen/Core is a header of a library that stays in "
         "backends/reference, backends/weights/encode"),
        ("ir/base/c.cc", "  #  include <gtest/gtest.h>\n",
         "ir/base/c.cc:1: gtest/gtest.h is a header of a library that stays in tests"),
        ("backends/runtime/p.cc", "#include <CLI/CLI.hpp>\n",
         "backends/runtime/p.cc:1: CLI/CLI.hpp is a header of a library that stays in "
         "frontends/cli/flags, frontends/cli"),
        ("models/build/j.cc", "#include <nlohmann/json.hpp>\n", None),
        ("frontends/cli/print/j.cc", "#include <nlohmann/json.hpp>\n", None),
        ("frontends/cli/d.cc", '#include "backends/manifest/inner.h"\n',
         "frontends/cli/d.cc:1: backends/manifest/inner.h brings flatbuffers/ out of "
         "backends/manifest, the folder that adapts it"),
        # Paths that lead nowhere, sources, unknown libraries and folders.
        ("ir/base/e.cc", '#include "ir/typo.h"\n',
         "ir/base/e.cc:1: ir/typo.h does not exist from the root of the repository"),
        ("ir/base/h.cc", '#include "ir/graph/type.cc"\n',
         "ir/base/h.cc:1: ir/graph/type.cc is a source, which is compiled and not included"),
        ("ir/base/f.cc", "#include <boost/any.hpp>\n",
         "ir/base/f.cc:1: boost/any.hpp is a header of a library without a line in LIBRARIES"),
        ("backends/new/g.cc", "#include <string>\n",
         "backends/new/g.cc:1: this folder has no line in ARROWS of scripts/check_includes.py"),
        ("ir/k.cc", "#include <string>\n",
         "ir/k.cc:1: this folder has no line in ARROWS of scripts/check_includes.py"),
    ],
)  # fmt: skip
def test_a_wrong_include_is_found(tmp_path, file, text, error):
    code, said = run(tmp_path, RIGHT | {file: text})
    assert code == 1
    if error is None:
        assert said.startswith(f"{file}:1: nlohmann/json.hpp is a header of a library that stays in ")
    else:
        assert said == error


def test_a_table_with_a_folder_above_what_it_includes_is_found(monkeypatch):
    """No circle of folders is possible as long as each folder includes only folders above it in the table."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    check_includes = importlib.import_module("check_includes")
    assert list(check_includes.wrong_order()) == []
    monkeypatch.setitem(check_includes.ARROWS, "ir/base", ["ir/graph"])
    assert list(check_includes.wrong_order()) == [
        "scripts/check_includes.py: ir/base is above ir/graph, which it may include"
    ]
