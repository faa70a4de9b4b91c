"""The end-of-text tokens of moec, of a GGUF file and of its export equal those of llama.cpp."""

import json

import gguf
import pytest

import llama_cpp
from gguf_models import read_model, write_model
from test_gguf_writer import the_file, widened_checkpoint

EOS, EOT, EOM = (f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom"))
# Every text that llama.cpp recognizes as an end, one for each fill-in-the-middle role, and some texts that are not
# ends.
TEXTS = ["</s>", "<EOT>", "<end_of_turn>", "<end_of_utterance>", "<eos>", "<turn|>", "<|calls|>", "<|call|>",
         "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<|eom_id|>", "<|eot_id|>", "<|flush|>", "<|ifm|im_end|>",
         "<|im_end|>", "<|return|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[EOS]", "[EOT]", "[e~[", "_<EOT>",
         "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|user|>", "<|EOT|>", "<|endofturn|>", "[gMASK]"]
GROUPS = [TEXTS, *([text] for text in TEXTS), ["<|end|>", "<|return|>"], ["<|end|>", "<|call|>", "<|return|>"],
          ["</s>", "<|tool_response>"], ["<fim-pad>"], ["<fim_pad>"], ["<PAD>"], ["[PAD]"], ["<fim-repo>"], ["<REPO>"],
          ["<reponame>"], ["<|fim_repo|>"], ["<|plamo:file_separator|>"]]


def eos_tokens(folder):
    return json.loads((folder / "manifest.json").read_text())["model"]["eos_tokens"]


@pytest.fixture(scope="module")
def with_tokens(golden, tmp_path_factory):
    """with_tokens(texts, **keys) → tinymoe's file with these tokens after token 255."""
    folder = tmp_path_factory.mktemp("ends")
    wide = read_model(widened_checkpoint(golden("tinymoe").checkpoint, folder / "wide", 300))

    def write(texts, keys):
        tokens = [f"t{i}" for i in range(256)] + texts
        tokens += [f"t{i}" for i in range(len(tokens), 300)]
        vocabulary = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
                      "tokenizer.ggml.token_type": [1] * 256 + [3] * 44, "tokenizer.ggml.merges": ["t 1"], EOS: 3, **keys}
        wide.keys = {key: value for key, value in wide.keys.items() if not key.startswith("tokenizer.")} | vocabulary
        return write_model(wide, folder / "model.gguf")[0]

    return write


@pytest.mark.parametrize("keys", [{}, {EOT: 7, EOM: 9}, {"tokenizer.ggml.fim_pad_token_id": 11}], ids=len)
def test_end_tokens_match_llama_cpp(keys, with_tokens, moec, tmp_path):
    for texts in GROUPS if not keys else GROUPS[:1]:
        file = with_tokens(texts, keys)
        moec("export", file, "--out", tmp_path / "out", "--force", "--quiet", "--layers", 1, "--tokens", 1)
        assert eos_tokens(tmp_path / "out") == llama_cpp.ends(file), texts


def test_writes_every_end_token_of_a_checkpoint(golden, export, tmp_path):
    """Like GLM-4.5, the checkpoint has three ends, none of which llama.cpp recognizes by text."""
    folder = widened_checkpoint(golden("tinymoe").checkpoint, tmp_path / "model", 300)
    added = [{"id": 260 + i, "content": text, "special": True} for i, text in enumerate(["<|a|>", "<|user|>", "<|tool|>"])]
    tokenizer = json.loads((golden("tinymoe").checkpoint / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": added}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [260, 262, 261]}))
    file = the_file(export(folder, "--target", "gguf"))
    assert llama_cpp.ends(file) == [260, 261, 262]
    assert gguf.GGUFReader(file).fields[EOS].contents() == 260
    assert eos_tokens(export(file, "--target", "onnx")) == [260, 261, 262]
