"""scripts/check_words.py finds each kind of violation and accepts correct sentences."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import check_words  # noqa: E402

CODE = {
    "// Returns a file that is no folder.": {"comment: is no"},
    "// There is no folder.": set(),
    "int a;  // the one behind\n": {"comment: behind"},
    "// A folder\n// beside the file.\n": {"comment: beside"},
    "// Whether it holds.\nbool holds();": {"comment: fragment"},
    "// Returns true if it holds.\nbool holds();": set(),
    "// " + "word " * 31 + "\n": {"comment: long sentence"},
    "// " + "word " * 30 + "\n": set(),
    "TEST(Suite, KeepsTheBytesOfAllFilesAndFolders) {": {"test name"},
    "TEST_F(Suite, RejectsEmptyGgufFiles) {": set(),
    'fail("a.b", cause,\n     "Give another folder.")': {"next step"},
    'fail("a.b", cause,\n     "give another folder")': set(),
    "// " + "word " * 20 + "\n//   table   " + "word " * 20 + "\n": set(),
    "// the most stretches of a file\n": {"comment: glossary"},
    'fail("a", "it is no valid path");': {"message: is no"},
    'fail("a", "it is no "\n     "valid path");': {"message: is no"},
    'auto a = "is no";': set(),
    'fail("a", "give another folder, remove this one");': {"message: splice"},
    'fail("a", "give another folder or remove this one");': set(),
}
DOCUMENTS = {
    "One thing\nbeside another.\n": {"document: beside"},
    "```\nbehind\n```\n\n    is no code\n": set(),
    "A table of its own.\n": {"document: of its own"},
}


def rules_of(name, text):
    return {rule for rule, _, _ in check_words.findings(Path(name), text)}


@pytest.mark.parametrize("text", CODE)
def test_finds_violations_in_code(text):
    assert rules_of("a.cc", text) == CODE[text]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_finds_violations_in_documents(text):
    assert rules_of("a.md", text) == DOCUMENTS[text]


def test_accepts_this_tree(monkeypatch, capsys):
    assert check_words.main() == 0
    name, rule = next(iter(check_words.EXCEPTIONS))
    monkeypatch.delitem(check_words.EXCEPTIONS, (name, rule))
    assert check_words.main() == 1
    assert f"{name}:" in capsys.readouterr().out


def test_rejects_unused_exceptions(monkeypatch, capsys):
    monkeypatch.setitem(check_words.EXCEPTIONS, ("README.md", "test name"), "none")
    assert check_words.main() == 1
    assert "remove the exception" in capsys.readouterr().out
