"""make_golden.py rejects unsupported requests before it imports PyTorch, and names an alternative."""

import io
import json
import pathlib
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "scripts"))

import make_golden  # noqa: E402
from golden.progress import Progress  # noqa: E402
from golden.request import family_names, weight_files  # noqa: E402

MIXTRAL = REPO / "tests/golden/mixtral_a"
TAGGER = REPO / "tests/golden/openai_privacy_filter_a"


@pytest.fixture
def refusal(monkeypatch, capsys, tmp_path):
    """refusal(*arguments) runs make_golden.py as if PyTorch were not installed and returns its message. Expects
    that nothing is written."""
    for package in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)  # makes importing the package fail
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["make_golden.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_of:
            make_golden.main()
        assert exit_of.value.code not in (0, None)
        assert not (tmp_path / "out").exists()
        return f"{exit_of.value.code} {capsys.readouterr().err}"

    return run


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(**members) → a folder with mixtral_a's config after changing the members, and an empty weight
    file."""

    def make(**members):
        folder = tmp_path / "checkpoint"
        folder.mkdir()
        config = json.loads((MIXTRAL / "config.json").read_text()) | members
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").touch()
        return folder

    return make


def own(folder, tokens="1,2,3"):
    return ("--checkpoint", folder, "--prompt-tokens", tokens, "--out", "out")


def test_rejects_a_missing_folder(refusal):
    assert "is not a folder" in refusal(*own("nowhere"))


def test_rejects_a_folder_without_config(refusal, tmp_path):
    assert "has no config.json" in refusal(*own(tmp_path))


def test_rejects_a_config_that_is_not_json(refusal, checkpoint):
    folder = checkpoint()
    (folder / "config.json").write_text("{")
    assert "cannot read" in refusal(*own(folder))


def test_lists_known_families_for_unknown_ones(refusal, checkpoint):
    message = refusal(*own(checkpoint(model_type="jamba")))
    assert "'jamba'" in message and "qwen3_moe" in message


def test_rejects_a_missing_weight_file(refusal, checkpoint):
    folder = checkpoint()
    (folder / "model.safetensors").unlink()
    assert "lacks weight files: model.safetensors" in refusal(*own(folder))


def test_rejects_a_missing_indexed_weight_file(refusal, checkpoint):
    folder = checkpoint()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert "lacks weight files: model-1.safetensors" in refusal(*own(folder))


@pytest.mark.parametrize("tokens, message", [
    ("1,two", "is not a list of token ids"),
    ("", "is not a list of token ids"),
    ("96", "outside the vocabulary of 96"),
    ("-1", "outside the vocabulary of 96"),
])
def test_rejects_tokens_outside_the_vocabulary(refusal, tokens, message):
    assert message in refusal("--checkpoint", MIXTRAL, f"--prompt-tokens={tokens}", "--out", "out")


def test_rejects_a_prompt_beyond_the_positions(refusal, checkpoint):
    assert "exceed the model's 6 positions" in refusal(*own(checkpoint(max_position_embeddings=6)))


def test_accepts_a_prompt_of_all_positions(refusal, checkpoint):
    assert "pip install torch" in refusal(*own(checkpoint(max_position_embeddings=6)), "--decode", 3)


def test_rejects_negative_decode_steps(refusal):
    assert "--decode -1 is negative" in refusal(*own(MIXTRAL), "--decode=-1")


def test_rejects_decode_steps_for_labelling_models(refusal):
    assert "labels tokens" in refusal(*own(TAGGER), "--decode", 2)


@pytest.mark.parametrize("arguments, message", [
    (("--checkpoint", MIXTRAL, "--out", "out"), "needs --prompt TEXT or --prompt-tokens LIST"),
    (("--checkpoint", MIXTRAL, "--prompt-tokens", "1"), "needs --out"),
    (("--prompt-tokens", "1", "--out", "out"), "--prompt-tokens needs --checkpoint"),
    (("--whole", "--out", "out"), "--whole needs --checkpoint"),
    ((*own(MIXTRAL), "--case", "mixtral_a"), "omit them with --checkpoint"),
])
def test_rejects_conflicting_flags(refusal, arguments, message):
    assert message in refusal(*arguments)


@pytest.mark.parametrize("arguments", [own(MIXTRAL), ("--case", "mixtral_a", "--out", "out")])
def test_missing_packages_name_the_install_command(refusal, arguments):
    assert "pip install torch==2.13.0" in refusal(*arguments)


def test_text_without_transformers_requires_token_ids(refusal):
    message = refusal("--checkpoint", MIXTRAL, "--prompt", "a", "--out", "out")
    assert "pip install transformers" in message and "--prompt-tokens" in message


def test_knows_each_family_by_all_names():
    names = family_names()
    assert names["kimi_k2"] == names["deepseek_v3"] == "deepseek_v3"
    cases = [path.parent for path in (REPO / "tests/golden").glob("*/golden.json")]
    families = {json.loads((case / "golden.json").read_text())["family"] for case in cases}
    descriptors = [json.loads(path.read_text()) for path in (REPO / "models/families").glob("*.json")]
    descriptors = [descriptor for descriptor in descriptors if "plan_only" not in descriptor]
    larger = {each["model_type"] for descriptor in descriptors for each in descriptor.get("inside", [])}
    assert len(larger) == 9 and families | larger == set(names.values())


def test_weight_files_follow_the_index():
    assert [path.name for path in weight_files(MIXTRAL)] == ["model.safetensors"]
    assert [path.name for path in weight_files(REPO / "tests/golden/qwen3_moe_a")] == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def test_progress_without_terminal_uses_one_line():
    stream = io.StringIO()
    progress = Progress(4, stream)
    for label in ("prefill", "decode0"):
        progress.begin(label)
        for _ in range(4):
            progress.step()
        progress.end()
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["prefill", "decode0"]
    assert all("[##############################]   4 of 4 parts" in line for line in lines)
