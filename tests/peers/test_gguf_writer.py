"""GGUF files that moec writes: llama.cpp computes the goldens from them, and their tensors equal those of the files
that gguf_models.py writes without moec byte for byte."""

import json
import shutil
import subprocess

import gguf
import gguf.quants
import numpy as np
import pytest

import llama_cpp
from conftest import find_binary
from exports import files_of
from gguf_cases import NOT_REPRESENTABLE, REPRESENTABLE, VARIANTS, all_tokens
from gguf_models import read_model, write_gguf, write_model
from goldens import REPO
from run_with_onnxruntime import Runner
from test_gguf_exports import assert_same_weights
from test_gguf_goldens import agree

F32 = ("--target", "gguf", "--dtype", "f32", "--tokenizer", "none")
KINDS = {bool: "BOOL", int: "UINT32", float: "FLOAT32", str: "STRING", list: "ARRAY"}
# Keys that moec writes in addition to the reference: they state defaults of the reference, and routing without groups.
MORE = {"general.architecture", "expert_group_count", "expert_group_used_count", "expert_shared_feed_forward_length"}


def the_file(folder):
    """Returns the (first) file of an export."""
    return sorted(folder.glob("*.gguf"))[0]


def tensors_of(folder):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(the_file(folder)).tensors}


def decoded(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


@pytest.mark.parametrize("case", REPRESENTABLE)
def test_llama_cpp_matches_the_golden(case, golden, export, worst):
    want = golden(case)
    wanted = np.concatenate([want.rows(step, "logits") for step, _, _ in want.steps])
    got = llama_cpp.logits(the_file(export(want.checkpoint, *F32)), all_tokens(want))
    agree(got, wanted, worst["llama.cpp, moec's GGUF"], case)


def test_llama_cpp_generates_the_golden_text(golden, export):
    """All 64 tokens match: each is the most likely one after the preceding tokens."""
    want = golden("tinymoe")
    text = [*want.prompt, *want.greedy]
    got = llama_cpp.logits(the_file(export(want.checkpoint, *F32)), text[:-1])
    assert len(want.greedy) == 64
    assert got[len(want.prompt) - 1 :].argmax(1).tolist() == list(want.greedy)


@pytest.mark.parametrize("case", [*REPRESENTABLE, *VARIANTS])
def test_keys_and_tensors_match_the_reference(case, gguf_checkpoint, export):
    folder = gguf_checkpoint(case)
    reader = gguf.GGUFReader(the_file(export(folder, *F32)))
    model = read_model(folder)
    keys = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert {name.removeprefix(model.arch + ".") for name in keys.keys() - model.keys.keys()} <= MORE
    for name, value in model.keys.items():
        found = keys[name].contents()
        assert found == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), name
        assert keys[name].types[0].name == KINDS[type(value)], name
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert tensors.keys() == model.tensors.keys()
    for name, wanted in model.tensors.items():
        assert list(tensors[name].shape) == list(reversed(wanted.shape)), name
        assert tensors[name].tensor_type.name == "F32", name
        if name == "rope_freqs.weight" or name.endswith("ssm_a"):
            np.testing.assert_allclose(tensors[name].data, wanted, rtol=1e-6)
        else:
            assert tensors[name].data.tobytes() == wanted.tobytes(), name


@pytest.mark.parametrize("case", NOT_REPRESENTABLE)
def test_rejects_models_unsupported_by_llama_cpp(case, golden, tmp_path):
    out = tmp_path / "out"
    command = [find_binary(), "export", golden(case).checkpoint, *F32, "--out", out, "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    found = [finding["code"] for finding in json.loads(done.stdout)["diagnostics"] if finding["severity"] == "error"]
    assert found == ["gguf.family"]
    assert not out.exists()


def with_yarn(checkpoint, folder, **own):
    """Writes the checkpoint with the YaRN parameters `own` into a new folder."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                 "original_max_position_embeddings": 64, **own}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


RANGES = [{"beta_fast": 1.0, "beta_slow": 1.0}, {"beta_fast": 1.0, "beta_slow": 1.0, "attention_factor": 1.4}, {"truncate": False}]


@pytest.mark.parametrize("own", RANGES, ids=str)
@pytest.mark.parametrize("case", ["mixtral_b", "granitemoe_a"])
def test_writes_other_yarn_ranges_as_divisors(case, own, golden, export, tmp_path, worst):
    """Covers architectures that read rope_freqs, because no key represents these ranges."""
    folder = with_yarn(golden(case).checkpoint, tmp_path / "own", **own)
    tokens = all_tokens(golden(case))
    written = the_file(export(folder, *F32))
    assert "rope_freqs.weight" in {tensor.name for tensor in gguf.GGUFReader(written).tensors}
    wanted = Runner(export(folder, "--tokens", len(tokens)), threads=1).feed(tokens)
    agree(llama_cpp.logits(written, tokens), wanted, worst["llama.cpp, moec's GGUF"])
    usual = the_file(export(with_yarn(golden(case).checkpoint, tmp_path / "usual"), *F32))
    assert np.abs(llama_cpp.logits(usual, tokens) - wanted).max() > 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("own", RANGES[:1] + RANGES[2:], ids=str)
@pytest.mark.parametrize("case", ["tinymoe", "qwen3_a"])
def test_rejects_other_yarn_ranges(case, own, gguf_checkpoint, tmp_path):
    out, folder = tmp_path / "out", with_yarn(gguf_checkpoint(case), tmp_path / "own", **own)
    done = subprocess.run([find_binary(), "export", folder, *F32, "--out", out, "--json"], capture_output=True, text=True)
    [found] = json.loads(done.stdout)["diagnostics"]
    assert found["code"] == "gguf.family" and "beta_fast 32" in found["cause"]
    assert not out.exists()


@pytest.mark.parametrize("case", REPRESENTABLE)
def test_weights_round_trip_through_gguf(case, golden, export):
    checkpoint = golden(case).checkpoint
    assert_same_weights(export(the_file(export(checkpoint, *F32)), "--target", "onnx"),
                        export(checkpoint, "--target", "onnx"))


@pytest.mark.parametrize("stored", ["q8_0", "q4_0", "mxfp4"])
def test_decodes_written_blocks_to_equal_values(stored, golden, export, tmp_path, worst):
    """Matrices have the type and all other tensors are f32. A model of the decoded values computes the same
    results."""
    want = golden("tinymoe")
    written = export(want.checkpoint, *F32, "--weights", stored)
    tensors, model = tensors_of(written), read_model(want.checkpoint)
    kinds = {name: tensor.tensor_type.name for name, tensor in tensors.items()}
    for name, kind in kinds.items():
        is_matrix = name.startswith("blk") and model.tensors[name].ndim > 1 and "ffn_gate_inp" not in name
        whole = model.tensors[name].shape[-1] % 32 == 0
        wanted = stored.upper() if (is_matrix or name == "output.weight") and whole else "F16" if is_matrix else "F32"
        assert kind == wanted, name
        model.tensors[name] = decoded(tensors[name])
    [exact] = write_model(model, tmp_path / "exact.gguf")
    assert_same_weights(export(the_file(written), "--target", "onnx"), export(exact, "--target", "onnx"))


def test_f16_and_bf16_round_like_numpy(golden, export):
    model = read_model(golden("mixtral_b").checkpoint)
    for dtype, kind in (("f16", "F16"), ("bf16", "BF16")):
        tensors = tensors_of(export(golden("mixtral_b").checkpoint, "--target", "gguf", "--dtype", dtype))
        name = "blk.0.ffn_down_exps.weight"
        assert tensors[name].tensor_type.name == kind
        wanted = gguf.quants.quantize(model.tensors[name], gguf.GGMLQuantizationType[kind])
        assert tensors[name].data.tobytes() == wanted.tobytes()
        assert tensors["blk.0.attn_norm.weight"].tensor_type.name == "F32"
        assert tensors["blk.0.ffn_gate_inp.weight"].tensor_type.name == "F32"


def test_experts_in_mxfp4_are_copied_without_loss(golden, export):
    checkpoint = golden("gpt_oss_c").checkpoint
    exact, copied = tensors_of(export(checkpoint, *F32)), tensors_of(export(checkpoint, *F32, "--weights", "copy"))
    for name, tensor in copied.items():
        is_expert = name.endswith("_exps.weight")
        assert tensor.tensor_type.name == ("MXFP4" if is_expert else "F32"), name
        assert np.array_equal(decoded(tensor), exact[name].data), name  # except for the sign of zeros


@pytest.mark.parametrize("stored", ["Q5_1", "Q4_1", "BF16"])
def test_copies_keep_types_and_bytes(stored, golden, export, tmp_path):
    [file] = write_gguf(golden("tinymoe").checkpoint, tmp_path / "stored.gguf", stored)
    wanted = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    copied = tensors_of(export(file, "--target", "gguf", "--weights", "copy"))
    assert copied.keys() == wanted.keys()
    for name, tensor in copied.items():
        assert tensor.tensor_type == wanted[name].tensor_type, name
        assert tensor.data.tobytes() == wanted[name].data.tobytes(), name


def test_copies_undecodable_blocks(golden, export, tmp_path):
    """One tensor has random bytes in a type that moec cannot decode; other tensors of the file are converted."""
    model = read_model(golden("tinymoe").checkpoint)
    name, kind = "blk.1.ffn_up_exps.weight", gguf.GGMLQuantizationType.NVFP4
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    shape = model.tensors[name].shape
    raw = np.random.default_rng(1).integers(0, 256, (*shape[:-1], shape[-1] // elements * size), np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", model.arch)
    for key, value in model.keys.items():
        writer.add_key_value(key, value, getattr(gguf.GGUFValueType, KINDS[type(value)]))
    for tensor, values in model.tensors.items():
        odd = tensor == name
        writer.add_tensor(tensor, raw if odd else values, raw_dtype=kind if odd else None)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    tensors = tensors_of(export(tmp_path / "odd.gguf", "--target", "gguf", "--weights", "experts=copy,attn=q8_0"))
    assert tensors[name].tensor_type == kind
    assert tensors[name].data.tobytes() == raw.tobytes()
    assert tensors["blk.1.attn_q.weight"].tensor_type.name == "Q8_0"


def test_split_files_contain_the_same_model(golden, export):
    want = golden("deepseek_v3_a")
    parts = export(want.checkpoint, *F32, "--max-file-size", "100kB")
    names = sorted(path.name for path in parts.glob("*.gguf"))
    assert len(names) > 2 and names[0] == f"{want.checkpoint.name}-00001-of-{len(names):05}.gguf"
    assert all(path.stat().st_size <= 100_000 for path in parts.glob("*.gguf"))
    whole = the_file(export(want.checkpoint, *F32))
    assert np.array_equal(*(llama_cpp.logits(file, all_tokens(want)) for file in (the_file(parts), whole)))


def test_killed_export_resumes_to_equal_bytes(tmp_path):
    """Sends SIGKILL after regular amounts of written bytes, for several job counts."""
    def command(out, jobs):
        return [str(find_binary()), "export", str(REPO / "models/tinymoe"), "--out", str(out), "--target", "gguf",
                "--dtype", "f32", "--max-file-size", "1MB", "--jobs", str(jobs), "--json"]

    whole = tmp_path / "whole"
    subprocess.run(command(whole, 1), check=True, capture_output=True)
    expected = files_of(whole)
    assert len(expected) > 9
    out, kept = tmp_path / "out", 0
    for jobs, seconds in ((1, 0.01), (4, 0.02), (2, 0.03), (8, 0.04)):
        running = subprocess.Popen(command(out, jobs), stdout=subprocess.DEVNULL)
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        assert not (out / "manifest.json").exists() or files_of(out) == expected
        if (out / "manifest.json").exists():
            break
    done = subprocess.run([*command(out, 3), "--force"] if (out / "manifest.json").exists() else command(out, 3),
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert files_of(out) == expected


# ---- Tokenizers --------------------------------------------------------------------------------

TEXT = ("The quick brown fox can't jump 12345 dogs; she'll say \"it's 3.14!\"  \n\n\tÜber naïve café — 東京タワー "
        "and Привет мир 😀 x_1 = foo(bar)[0];\r\nHTTP/2 ÄÖÜ don't I'VE We'd   end ") * 3


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def of_bytes(regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def expressions():
    """The entries of the C++ table by name."""
    source = (REPO / "frontends/sources/gguf/pre_tokenizer_names.cc").read_text()
    found = {}
    for name in ("kQwen2", "kLlama3", "kGpt4o", "kDeepseekDigits", "kDeepseekWords"):
        found[name] = source.split(f"std::string_view {name} =")[1].split('R"(', 1)[1].split(')";', 1)[0]
    found["kDeepseekHan"] = "[一-龥\u3040-ゟ゠-ヿ]+"
    return found


def pre_tokenizers():
    known = expressions()
    cuts = {name: [split(known[key])] for name, key in (("qwen2", "kQwen2"), ("llama-bpe", "kLlama3"), ("gpt-4o", "kGpt4o"))}
    cuts["deepseek-v3"] = [split(known[key]) for key in ("kDeepseekDigits", "kDeepseekHan", "kDeepseekWords")]
    found = {name: {"type": "Sequence", "pretokenizers": [*steps, of_bytes(False)]} for name, steps in cuts.items()}
    found["gpt-2"] = of_bytes(True)
    found["refact"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, of_bytes(True)]}
    return found


@pytest.mark.parametrize("name", ["gpt-2", "refact", "qwen2", "llama-bpe", "gpt-4o", "deepseek-v3"])
def test_llama_cpp_tokenizes_equally(name, golden, export, tmp_path):
    """Adds a small byte-level BPE with this pre-tokenizer, trained on the text, to the weights of tinymoe with
    additional rows."""
    tokenizers = pytest.importorskip("tokenizers")
    empty = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": pre_tokenizers()[name],
             "post_processor": None, "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    made = tokenizers.Tokenizer.from_str(json.dumps(empty))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([TEXT], trainer)
    folder = widened_checkpoint(golden("tinymoe").checkpoint, tmp_path / "model", 512)
    made.save(str(folder / "tokenizer.json"))
    file = the_file(export(folder, "--target", "gguf"))
    assert gguf.GGUFReader(file).fields["tokenizer.ggml.pre"].contents() == name
    assert llama_cpp.tokenize(file, TEXT) == made.encode(TEXT).ids


def widened_checkpoint(checkpoint, folder, vocabulary):
    """The checkpoint with a larger vocabulary; additional rows repeat the first ones."""
    from safetensors_files import read_checkpoint, write_tensors

    config = json.loads((checkpoint / "config.json").read_text())
    tensors = read_checkpoint(checkpoint)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = np.float32(np.resize(tensors[name], (vocabulary, tensors[name].shape[1])))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": vocabulary, "dtype": "float32"}))
    write_tensors(folder / "model.safetensors", {name: np.float32(values) for name, values in tensors.items()})
    return folder


def test_tinymoe_tokens_are_bytes(golden, export):
    file = the_file(export(golden("tinymoe").checkpoint, "--target", "gguf"))
    assert llama_cpp.tokenize(file, TEXT) == list(TEXT.encode())
