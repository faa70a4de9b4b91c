"""scripts/check_sizes.py finds each kind of oversized item, with file and line."""

import importlib
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("lizard")
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_sizes.py"


def run(root, text):
    path = root / "ir" / "a.cc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def function(lines=1, parameters=0, branches=0):
    head = ", ".join(f"int p{i}" for i in range(parameters))
    body = ["  if (a) b();"] * branches + ["  b();"] * (lines - 2 - branches)
    return "\n".join([f"void f({head}) {{", *body, "}\n"])


def test_rejects_an_empty_tree(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1


@pytest.mark.parametrize(
    "text, error",
    [
        (function(lines=61), "ir/a.cc:1: f has 61 lines, at most 60"),
        (function(parameters=7, lines=3), "ir/a.cc:1: f has 7 parameters, at most 6"),
        ("\n" + function(branches=15, lines=18), "ir/a.cc:2: f has 16 ways through it, at most 15"),
        ("struct S {\n" + "  int a = f(1, 2), b{3};\n" * 8 + "};\n" + function(lines=3),
         "ir/a.cc:1: S has 16 members, at most 15 are allowed"),
    ],
)  # fmt: skip
def test_finds_oversized_items(tmp_path, text, error):
    code, said = run(tmp_path, text)
    assert code == 1
    assert said[0] == error


def test_finds_a_median_above_the_limit(tmp_path):
    code, said = run(tmp_path, function(lines=10))
    assert code == 1
    assert said == [
        "functions: median 10, p90 10; at most 9 and 20",
        "1 functions: median 10 lines, p90 10, longest 10",
    ]


@pytest.mark.parametrize(
    "body, count",
    [
        ("int a, b;", 2),
        ("std::map<std::string, int> a;", 1),
        ("std::function<bool(int, int)> stop;", 1),
        ("std::vector<int> a = {1, 2, 3};", 1),
        ("int a = 1, b = 2;  bool ok() const { return a > b; }", 2),
        ("int f(); static int g; using T = int; explicit S(int);", 0),
        ("struct Inner { int a, b, c; }; Inner inner;", 1),
        ("private:\n std::array<std::pair<int, int>, 3> pairs_ = {{{1, 2}}};", 1),
        ("bool operator==(const S&) const = default;", 0),
    ],
)
def test_counts_declared_members(monkeypatch, body, count):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    check_sizes = importlib.import_module("check_sizes")
    assert check_sizes.members(body) == count
