"""LiteRT-LM runs the files of target litertlm: the graphs match PyTorch's results, texts those of moec.

    scripts/install_vendors.sh litertlm
    build/vendors/litertlm/bin/pytest tests/peers/test_litertlm.py

Skipped if the packages ai-edge-litert and litert-lm-api are missing.
"""

import io
import json
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("litert_lm")

import litert_lm  # noqa: E402
from ai_edge_litert.interpreter import Interpreter  # noqa: E402
from comparison import Comparison  # noqa: E402
from conftest import find_binary  # noqa: E402
from goldens import WRITERS  # noqa: E402
from litert_lm_builder import litertlm_peek  # noqa: E402

RELATIVE = 1e-5
BLOCK = 64 * 1024  # the model begins at a multiple of it
# The file keeps only keys and values.
WITH_HISTORIES = ("bailing_hybrid", "granitemoehybrid", "kimi_linear", "lara_mini", "lfm2_moe", "nemotron_h", "qwen3_5_moe", "qwen3_next", "zaya")


def prompt_width(case):
    return 16 if case.startswith("tiny") else 8


def model_of(path):
    data = path.read_bytes()
    return next(data[at:] for at in range(BLOCK, len(data), BLOCK) if data[at + 4:at + 8] == b"TFL3")


class Decoder:
    """The signatures of a file, with the caches of one text. It calls them as LiteRT-LM does."""

    def __init__(self, folder):
        self.file = folder / "model.litertlm.tflite"
        self.file.write_bytes(model_of(folder / "model.litertlm"))
        self.interpreter = Interpreter(str(self.file), num_threads=1)
        self.names = sorted(self.interpreter.get_signature_list(), reverse=True)
        self.calls = {name: self.interpreter.get_signature_runner(name) for name in self.names}
        inputs = self.calls["decode"].get_input_details()
        self.caches = {name: np.zeros(each["shape"], each["dtype"]) for name, each in inputs.items()
                       if name.startswith("kv_cache")}

    def run(self, name, tokens, position):
        """Returns the logits of the last token, if the signature has them. A prompt may be shorter than the graph."""
        width = self.calls[name].get_input_details()["tokens"]["shape"][1]
        padded = list(tokens) + [0] * (width - len(tokens))
        positions = list(range(position, position + len(tokens))) + [0] * (width - len(tokens))
        results = self.calls[name](tokens=np.array([padded], np.int32), input_pos=np.array(positions, np.int32),
                                   **self.caches)
        self.caches = {cache: results[cache] for cache in self.caches}
        return results["logits"].ravel() if "logits" in results else None


def decoded_logits(folder, want, prompt):
    """(logits after `prompt` tokens, computed by one call for the prompt and one per further token; the golden's)."""
    tokens = [token for _, _, step in want.steps for token in step]
    reference = np.concatenate([want.rows(name, "logits") for name, _, _ in want.steps])
    decoder = Decoder(folder)
    prefill = next(name for name in decoder.names if name.startswith("prefill"))
    if prompt:
        decoder.run(prefill, tokens[:prompt], 0)
    got = [decoder.run("decode", [tokens[at]], at) for at in range(prompt, len(tokens))]
    return np.stack(got).astype(np.float64), reference[prompt:]


@pytest.mark.parametrize("case", WRITERS)
def test_graphs_match_goldens(case, golden, export, moec, worst, tmp_path):
    want = golden(case)
    options = ("--target", "litertlm", "--context", "40", "--tokens", f"1,{prompt_width(case)}")
    if case.startswith(WITH_HISTORIES):
        command = [find_binary(), "export", want.checkpoint, "--out", tmp_path / "out", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode and "error[litertlm.form]" in done.stderr and not (tmp_path / "out").exists()
        return
    folder = export(want.checkpoint, *options)
    for prompt in (0, 3):
        got, reference = decoded_logits(folder, want, prompt)
        relative = np.linalg.norm(got - reference) / np.linalg.norm(reference)
        worst["litertlm"].add(Comparison(relative_l2=float(relative), comparisons=1))
        assert relative <= RELATIVE
        assert (got.argmax(1) == reference.argmax(1)).all()


# ---- The runtime -------------------------------------------------------------------------------


def engine(folder):
    return litert_lm.Engine(str(folder / "model.litertlm"), backend=litert_lm.Backend.CPU())


def answer(folder, prompt):
    with engine(folder).create_session() as session:
        session.run_prefill([prompt])
        return session.run_decode().texts[0]


@pytest.mark.parametrize("options", ((), ("--dtype", "f16"), ("--weights", "int8")))
@pytest.mark.parametrize("prompt", ("def ", "class Lexer(object):\n    def __init__(self"))
def test_texts_are_those_of_moec(prompt, options, golden, export, moec):
    """One prompt is shorter than the graph for prompts, the other takes several calls."""
    folder = export(golden("tinymoe").checkpoint, "--target", "litertlm", "--tokens", "1,16", "--context", "160", *options)
    expected = moec("run", folder, "--prompt", prompt, "--max-tokens", 60)
    expected = expected[len(prompt):] if expected.startswith(prompt) else expected
    got = answer(folder, prompt)
    same = 60 if not options else 20  # integer weights quantize activations
    assert got[:same] == expected[:same]


def test_chats_use_the_template(golden, export, tmp_path):
    """The runtime passes a message as a list of parts; templates of text models add strings."""
    source = tmp_path / "source"
    shutil.copytree(golden("tinymoe").checkpoint, source)
    config = json.loads((source / "tokenizer_config.json").read_text())
    config["chat_template"] = "{% for message in messages %}{{ '<' + message['content'] + '>' }}{% endfor %}"
    (source / "tokenizer_config.json").write_text(json.dumps(config))
    folder = export(source, "--target", "litertlm", "--tokens", "1,16", "--context", "160")
    with engine(folder).create_conversation() as conversation:
        got = conversation.send_message("def ")["content"][0]["text"]
    assert got and got == answer(folder, "<def >")


def test_builder_reads_the_header(golden, export):
    folder = export(golden("tinymoe").checkpoint, "--target", "litertlm", "--tokens", "1,16", "--context", "160")
    said = io.StringIO()
    litertlm_peek.peek_litertlm_file(str(folder / "model.litertlm"), None, said)
    for part in ("TFLiteModel", "tf_lite_prefill_decode", "LlmMetadataProto", "HF_Tokenizer_Zlib", "max_num_tokens: 145"):
        assert part in said.getvalue()


@pytest.mark.parametrize("limit, greedy", ((1, True), (0, False)))
def test_sampling_follows_the_checkpoint(limit, greedy, golden, export, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(golden("tinymoe").checkpoint, source)
    settings = {"do_sample": True, "temperature": 4.0, "top_k": limit}
    (source / "generation_config.json").write_text(json.dumps(settings))
    options = ("--target", "litertlm", "--tokens", "1,16", "--context", "160")
    sampled = answer(export(source, *options), "class Lexer(object):")
    assert (sampled == answer(export(golden("tinymoe").checkpoint, *options), "class Lexer(object):")) == greedy
