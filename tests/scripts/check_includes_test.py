"""scripts/check_includes.py finds each kind of wrong include, and names file and line."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_includes.py"

RIGHT = {
    "ir/type.h": "#include <string>\n#include <fmt/format.h>\n",
    "ir/type.cc": '#include "ir/type.h"\n#include <tl/expected.hpp>\n',
    "backends/weights/reader.h": '#include "ir/type.h"\n',
    "backends/reference/run.cc": '#include <Eigen/Core>\n#include "backends/weights/reader.h"\n',
    "backends/manifest/parser.h": "#include <flatbuffers/idl.h>\n",
    "backends/manifest/inner.h": '#include "backends/manifest/parser.h"\n',
    "backends/manifest/inner.cc": '#include "backends/manifest/inner.h"\n',
    "frontends/cli/cli.cc": '#include "ir/type.h"\n#include "backends/weights/reader.h"\n',
    "tests/a_test.cc": '#include <gtest/gtest.h>\n#include "backends/manifest/inner.h"\n',
}


def run(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def test_right_includes_pass(tmp_path):
    assert run(tmp_path, RIGHT) == (0, "14 includes follow the arrows")


def test_this_tree_passes():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_tree_fails(tmp_path):
    assert run(tmp_path, {})[0] == 1


@pytest.mark.parametrize(
    "file, text, error",
    [
        ("ir/up.cc", '#include "backends/weights/reader.h"\n',
         "ir/up.cc:1: ir may not include backends/weights (backends/weights/reader.h)"),
        ("passes/a.cc", '\n// why\n#include "backends/weights/reader.h"\n',
         "passes/a.cc:3: passes may not include backends/weights (backends/weights/reader.h)"),
        ("backends/weights/side.cc", '#include "backends/manifest/inner.h"\n',
         "backends/weights/side.cc:1: backends/weights may not include backends/manifest "
         "(backends/manifest/inner.h)"),
        ("passes/b.cc", "#include <Eigen/Core>\n",
         "passes/b.cc:1: Eigen/Core is a header of a library that stays in backends/reference"),
        ("ir/c.cc", "  #  include <gtest/gtest.h>\n",
         "ir/c.cc:1: gtest/gtest.h is a header of a library that stays in tests"),
        ("frontends/cli/d.cc", '#include "backends/manifest/inner.h"\n',
         "frontends/cli/d.cc:1: backends/manifest/inner.h brings flatbuffers/ out of "
         "backends/manifest, the folder that adapts it"),
        ("ir/e.cc", '#include "ir/typo.h"\n',
         "ir/e.cc:1: ir/typo.h does not exist from the root of the repository"),
        ("ir/h.cc", '#include "ir/type.cc"\n',
         "ir/h.cc:1: ir/type.cc is a source, which is compiled and not included"),
        ("ir/f.cc", "#include <boost/any.hpp>\n",
         "ir/f.cc:1: boost/any.hpp is a header of a library without a line in LIBRARIES"),
        ("backends/new/g.cc", "#include <string>\n",
         "backends/new/g.cc:1: this folder has no line in ARROWS of scripts/check_includes.py"),
    ],
)  # fmt: skip
def test_a_wrong_include_is_found(tmp_path, file, text, error):
    assert run(tmp_path, RIGHT | {file: text}) == (1, error)
