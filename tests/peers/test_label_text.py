"""scripts/label_text.py finds the spans that `moec run` finds with byte tokens."""

import json
import shutil
import subprocess
import sys

import pytest
import tokenizers

from conftest import find_binary
from goldens import REPO
from label_text import first_unjudged, redact, text_span

TEXT = "Call Ms. Nora Lindqvist, 12 Harbor Road, Milbrook, at +49 171 5550123. Thanks!"


@pytest.fixture(scope="module")
def exports(moec, tmp_path_factory):
    """tinytagger unchanged, and with a tokenizer.json whose tokens are single characters with the ids of their
    bytes."""
    folder = tmp_path_factory.mktemp("tagger")
    source = folder / "checkpoint"
    shutil.copytree(REPO / "models/tinytagger", source)
    characters = {chr(byte): byte for byte in range(128)}
    tokenizers.Tokenizer(tokenizers.models.BPE(characters, [])).save(str(source / "tokenizer.json"))
    (source / "tokenizer_config.json").write_text("{}")
    for name, checkpoint in (("bytes", REPO / "models/tinytagger"), ("characters", source)):
        moec("export", checkpoint, "--out", folder / name, "--tokens", "128", "--context", "128", "-q")
    return folder


def label(folder, *flags, **how):
    command = [sys.executable, REPO / "scripts/label_text.py", folder, "--moec", find_binary(), *flags]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)


def test_spans_are_byte_ranges(exports, moec):
    wanted = json.loads(moec("run", exports / "bytes", "--prompt", TEXT, "--redact", "--json"))
    found = json.loads(label(exports / "characters", "--prompt", TEXT, "--redact", "--json").stdout)
    assert len(wanted["spans"]) == 3
    assert found["spans"] == wanted["spans"]
    assert found["redacted"] == wanted["redacted"]
    own = json.loads(moec("run", exports / "characters", "--prompt", TEXT, "--redact", "--json"))
    assert own["spans"] == wanted["spans"] and own["redacted"] == wanted["redacted"]


def test_rejects_a_normalizing_tokenizer(exports, tmp_path):
    shutil.copytree(exports / "characters", tmp_path / "out")
    file = tmp_path / "out/tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.save(str(file))
    refused = subprocess.run([find_binary(), "run", tmp_path / "out", "--prompt", TEXT], capture_output=True, text=True)
    assert "run.no_offsets" in refused.stderr and "label_text.py" in refused.stderr


def test_reads_text_from_standard_input(exports):
    assert "<PRIVATE_PHONE>" in label(exports / "characters", "--redact", input=TEXT + "\n").stdout
    assert label(exports / "characters", "--redact", input="").stdout == "\n"
    lines = label(exports / "characters", "--prompt", TEXT).stdout.splitlines()
    assert len(lines) == 3 and lines[2].split()[3] == "private_phone"


def test_spans_exclude_leading_white_space():
    offsets = [(0, 4), (4, 9), (9, 19)]
    span = text_span("Call Nora Lindqvist", offsets, {"start": 1, "end": 3, "label": "a", "score": 1})
    assert (span["start"], span["end"], span["text"]) == (5, 19, "Nora Lindqvist")


def test_overlapping_spans_stay_redacted():
    spans = [{"start": 0, "end": 3, "label": "a"}, {"start": 1, "end": 2, "label": "b"}]
    assert redact("abcd", spans) == "<A><B>d"


def test_finds_characters_without_a_token():
    assert first_unjudged("ab cd", [(0, 2), (3, 5)]) is None
    assert first_unjudged("ab,cd", [(0, 2), (3, 5)]) == 2
    assert first_unjudged("abcd", [(0, 2)]) == 2


def test_rejects_redacting_characters_without_a_token(exports):
    done = label(exports / "characters", "--redact", "--prompt", TEXT + " Zoë")
    assert done.returncode == 1 and done.stdout == ""
    assert f"no token covers its character {len(TEXT) + 3}" in done.stderr


def test_truncating_tokenizer_does_not_truncate_redaction(exports, tmp_path):
    shutil.copytree(exports / "characters", tmp_path / "out")
    file = tmp_path / "out/tokenizer.json"
    cutting = tokenizers.Tokenizer.from_file(str(file))
    cutting.enable_truncation(30)
    cutting.save(str(file))
    wanted = label(exports / "characters", "--redact", "--prompt", TEXT).stdout
    assert "<PRIVATE_PHONE>" in wanted and label(tmp_path / "out", "--redact", "--prompt", TEXT).stdout == wanted


def test_rejects_an_export_without_tokenizer(exports, tmp_path):
    shutil.copytree(exports / "characters", tmp_path / "out")
    (tmp_path / "out/tokenizer.json").unlink()
    done = label(tmp_path / "out", "--prompt", "a")
    assert done.returncode == 1 and "tokenizer.json does not exist" in done.stderr
