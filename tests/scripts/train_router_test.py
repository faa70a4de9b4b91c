"""train_router.py rejects unsupported requests before it imports PyTorch, and keeps trainings in separate folders."""

import json
import pathlib
import sys

import numpy as np
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "scripts"))

import train_router  # noqa: E402
from golden.request import Refused  # noqa: E402
from training.router import texts  # noqa: E402
from training.router.checkpoint import encoder_of  # noqa: E402
from training.router.request import Phase, phases_of  # noqa: E402
from training.router.run_folder import RunFolder  # noqa: E402

MIXTRAL = REPO / "tests/golden/mixtral_a"
QUANTISED = next(path.parent for path in sorted((REPO / "tests/golden").glob("*/config.json"))
                 if "quantization_config" in json.loads(path.read_text()))


@pytest.fixture
def refusal(monkeypatch, capsys, tmp_path):
    """refusal(*arguments) runs train_router.py as if PyTorch were not installed and returns its message. Expects
    that nothing is written."""
    for package in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)  # makes importing the package fail
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["train_router.py", *map(str, arguments), "--out", "out"])
        assert train_router.main() == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("flags, message", [
    (("--steps", "many"), "--steps 'many' is not a number"),
    (("--steps", "-1"), "--steps -1 must be at least 0"),
    (("--steps", "0"), "--steps and --expert-steps are both 0"),
    (("--lr", "0"), "--lr 0 must be more than 0"),
    (("--lr", "nan"), "--lr nan must be more than 0"),
    (("--expert-lr", "inf"), "--expert-lr inf must be more than 0"),
    (("--balance", "-0.1"), "--balance -0.1 must be at least 0"),
    (("--batch", "1.5"), "--batch '1.5' is not a number"),
    (("--capacity", "0"), "--capacity 0 must be more than 0"),
    (("--seeds", "0,1,0"), "--seeds 0,1,0 has a seed twice"),
    (("--seeds", ""), "--seeds '' is not a number"),
    (("--redraw", "x"), "--redraw 'x' is not a number"),
    (("--threads", "0"), "--threads 0 must be at least 1"),
    (("--length", "129"), "--length 129 exceeds the model's 128 positions"),
    (("--dense", REPO / "tests/golden/mixtral_b", "--length", "64"), "the vocabularies of"),
    (("--dense", "nowhere"), "nowhere is not a folder"),
])
def test_rejects_invalid_flags_with_the_reason(refusal, flags, message):
    assert message in refusal(MIXTRAL, *flags)


def test_rejects_checkpoints_without_config_or_plain_weights(refusal, tmp_path):
    assert "nowhere is not a folder" in refusal("nowhere")
    assert "has no config.json" in refusal(tmp_path)
    assert "has quantized weights" in refusal(QUANTISED)
    (tmp_path / "config.json").write_text("{}")
    assert "lacks weight files: model.safetensors" in refusal(tmp_path)


def test_missing_packages_name_the_install_command(refusal):
    assert "pip install torch==2.13.0" in refusal(MIXTRAL, "--length", "64")


def test_other_vocabularies_require_a_tokenizer(tmp_path):
    with pytest.raises(Refused, match="no tokenizer and a vocabulary of 96"):
        encoder_of(tmp_path, {"vocab_size": 96})
    assert encoder_of(tmp_path, {"vocab_size": 256})(b"ab") == [97, 98]
    assert encoder_of(tmp_path, {"text_config": {"vocab_size": 256}})(b"\xff") == [255]


def test_omits_a_phase_without_steps():
    flags = train_router.flags_of([str(MIXTRAL), "--out", "out", "--steps", "0", "--expert-steps", "5"])
    assert phases_of(flags) == [Phase("experts", 5, 0.001, "experts", checkpointing=True)]


# ------------------------------------------------------------- texts ----

def test_generated_texts_are_reproducible_and_separate(monkeypatch):
    monkeypatch.setattr(texts, "TRAINING_BYTES", 3000)
    monkeypatch.setattr(texts, "HELD_BYTES", 1000)
    domains = texts.generated()
    assert domains == texts.generated() and list(domains) == ["arithmetic", "json_records", "sentences"]
    for train, held in domains.values():
        assert len(train) >= 3000 and len(held) >= 1000 and train[:500] != held[:500]


def test_holds_out_the_last_tenth_per_file(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a" * 90 + b"b" * 10)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/c.txt").write_bytes(b"c" * 9 + b"d")
    assert texts.files_of(tmp_path) == {"text": (b"a" * 90 + b"\n\n" + b"c" * 9, b"b" * 10 + b"\n\n" + b"d")}


def test_never_splits_a_character(tmp_path):
    (tmp_path / "a.txt").write_text("é" * 25)  # the last tenth would start inside a character
    train, held = texts.files_of(tmp_path)["text"]
    assert (train + held).decode() == "é" * 25 and train.decode() and held.decode()


def test_rejects_files_that_are_not_text(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc\xff")
    with pytest.raises(Refused, match=r"a\.bin is not UTF-8 text \(byte 3\)"):
        texts.files_of(tmp_path)
    with pytest.raises(Refused, match="is not a folder"):
        texts.files_of(tmp_path / "a.bin")


def test_rejects_too_little_text():
    with pytest.raises(Refused, match="text: 17 tokens to train on are fewer than two windows of 8"):
        texts.Texts({"text": (bytes(17), bytes(99))}, list, 8)
    with pytest.raises(Refused, match="text: 3 tokens to measure on"):
        texts.Texts({"text": (bytes(99), bytes(3))}, list, 8)


def test_only_training_batches_use_the_seed():
    data = texts.Texts({"a": (bytes(99), bytes(99)), "b": (b"\1" * 99, b"\2" * 99)}, list, 8)
    first, again, other = (data.batch(64, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.shape == (64, 9) and np.array_equal(first, again) and not np.array_equal(first, other)
    assert 16 < first[:, 0].sum() < 48
    held = list(data.held_batches("b", 3, 5))
    assert [batch.shape for batch in held] == [(5, 9)] * 3 and {*np.concatenate(held).flatten()} == {2}


# ------------------------------------------------------------- folders ----

REQUEST = {"parts": ["seed0", "seed1"], "lr": 0.1, "phases": [{"name": "router", "steps": 5}]}


def test_only_the_same_request_resumes_training(tmp_path):
    RunFolder(tmp_path / "out", REQUEST)
    assert RunFolder(tmp_path / "out", json.loads(json.dumps(REQUEST)), resume=True)
    with pytest.raises(Refused, match=r"another training \(lr was 0.1 and is 0.2\)"):
        RunFolder(tmp_path / "out", {**REQUEST, "lr": 0.2}, resume=True)
    with pytest.raises(Refused, match="has no run.json"):
        RunFolder(tmp_path / "other", REQUEST, resume=True)
    assert not (tmp_path / "other").exists()


def test_only_force_replaces_an_earlier_training(tmp_path):
    part = RunFolder(tmp_path / "out", REQUEST).part("seed0")
    part.finish({"loss": 1})
    assert part.metrics() == {"loss": 1}
    with pytest.raises(Refused, match="continue its training with --resume, or replace it with --force"):
        RunFolder(tmp_path / "out", REQUEST)
    assert RunFolder(tmp_path / "out", REQUEST, force=True).part("seed0").metrics() is None


def test_force_removes_parts_of_earlier_training(tmp_path):
    RunFolder(tmp_path, REQUEST).part("seed1").finish({"loss": 1})
    RunFolder(tmp_path, {**REQUEST, "parts": ["seed0"]}, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json"]


def test_force_removes_nothing_but_trainings(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Refused, match="pass another folder"):
        RunFolder(tmp_path, REQUEST, force=True)
    RunFolder(tmp_path / "out", REQUEST)
    (tmp_path / "out/mine.txt").write_text("mine")
    RunFolder(tmp_path / "out", REQUEST, force=True)
    assert (tmp_path / "out/mine.txt").read_text() == "mine"


def test_resume_excludes_force_and_files(tmp_path):
    with pytest.raises(Refused, match="one of the two"):
        RunFolder(tmp_path / "out", REQUEST, resume=True, force=True)
    (tmp_path / "out").write_text("")
    with pytest.raises(Refused, match="is a file"):
        RunFolder(tmp_path / "out", REQUEST)


def test_finished_part_removes_state_and_partial_files(tmp_path):
    folder = RunFolder(tmp_path, REQUEST)
    part = folder.part("seed0")
    part.state.write_bytes(b"state")
    (part.path / "state.pt.partial").write_bytes(b"half")
    part = folder.part("seed0")
    assert part.state.is_file() and not (part.path / "state.pt.partial").exists()
    part.finish({"loss": 1})
    assert not part.state.exists() and not list(part.path.glob("*.partial"))
