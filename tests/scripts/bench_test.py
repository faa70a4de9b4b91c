"""Tests the computations and measurements of scripts/bench.sh. No test depends on the machine's speed."""

import pathlib
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench"
sys.path.insert(0, str(SCRIPTS))

import bench  # noqa: E402
import disk_floor  # noqa: E402
import engines  # noqa: E402
import forecast  # noqa: E402
import measured  # noqa: E402
import runtime  # noqa: E402

ROUND = {"read": 1.0, "write": 2.0, "read_and_write": 0.5, "cp": 0.25, "onnx": 0.5, "ane": 0.25}


def test_ratios_use_floors_of_their_round():
    ratios = bench.ratios(ROUND)
    assert ratios["onnx"] == {"read": 0.5, "write": 0.25, "read_and_write": 1.0, "cp": 2.0, "slower": 0.5}
    assert ratios["ane"]["cp"] == 1.0


def test_forecasts_are_compared_with_measurements():
    assert forecast.within(85, 100) and forecast.within(115, 100)
    assert not forecast.within(84, 100) and not forecast.within(100, 84)
    assert forecast.slots_flags("all") == [] and forecast.slots_flags("8") == ["--capacity", "8"]


def test_peak_memory_excludes_the_parent():
    ballast = bytearray(300 << 20)
    small = measured.measure([sys.executable, "-S", "-c", "pass"])
    large = measured.measure([sys.executable, "-S", "-c", "x = bytearray(200 << 20)"])
    assert small["peak_bytes"] < 100 << 20 < 200 << 20 < large["peak_bytes"] < len(ballast)
    assert small["seconds"] > 0


def test_failing_command_exits_with_its_output():
    with pytest.raises(SystemExit, match="no such thing"):
        measured.measure([sys.executable, "-S", "-c", "import sys; sys.exit('no such thing')"])


def test_blocks_cover_the_files_once():
    assert list(disk_floor.Blocks([10, 4], 4)) == [(0, 0), (0, 4), (0, 8), (1, 0)]


def test_floors_write_and_remove_their_file(tmp_path):
    payload = tmp_path / "payload"
    payload.write_bytes(b"x" * (9 << 20))
    way = (1 << 20, 4)
    try:
        assert disk_floor.read_rate([payload], way) > 0
    except OSError:
        pytest.skip("this file system does not support direct I/O")
    assert disk_floor.write_rate(tmp_path / "out", 8 << 20, way) > 0
    assert disk_floor.copy_rate([payload], tmp_path / "out", way) > 0
    ways = disk_floor.fastest_ways([payload], tmp_path / "out")
    assert set(ways) == {"read", "write", "read_and_write"} and set(ways.values()) <= set(disk_floor.WAYS)
    assert list(tmp_path.iterdir()) == [payload]


@pytest.mark.skipif(not bench.MOEC.exists(), reason="needs the release build")
def test_sparse_checkpoints_plan_and_export_one_layer(tmp_path, capsys):
    sparse = bench.measure_sparse(tmp_path, gigabytes=0.2, hidden=256, ff=512)
    assert 0.15e9 < sparse["nominal_bytes"] < 0.25e9
    for what in ("plan", "export"):
        assert sparse[what]["seconds"] > 0 and sparse[what]["peak_bytes"] > 1 << 20
    assert list(tmp_path.iterdir()) == []
    bench.print_sparse(sparse)
    header, plan, export = capsys.readouterr().out.splitlines()
    assert header == "0.00 TB nominal, in sparse files"
    assert plan.split()[:3] == ["plan", "of", "all"] and plan.endswith("MiB")
    assert export.split()[:4] == ["export", "of", "a", "layer"] and export.endswith("MiB")


def a_run(seconds, peak):
    return {
        "prompt": [1, 2],
        "tokens": [3, 4, 5],
        "prefill_seconds": seconds / 4,
        "decode_seconds": seconds * 3 / 4,
        "experts": {"hit_rate": 0.5, "bytes_read": 4e9, "bytes_read_per_token": 1e9, "wait_seconds": 1},
        "memory": {"peak_bytes": peak},
    }


def test_compares_runs_with_disk_time():
    figures = runtime.figures(a_run(3, 100), rate=2)
    assert figures["tokens_per_second"] == 4 / 3 and figures["of_the_disk"] == 1.5
    runs = {seconds: runtime.figures(a_run(seconds, 110), rate=2) for seconds in (2, 4, 6)}
    rounds = [{"disk": 2.0, "serial": runs[6], "ahead": runs[s], "prefetch": runs[s]} for s in (2, 4)]
    summary = runtime.summary(rounds, allowed=100)
    assert summary["ahead"]["gain"] == (6 / 2 + 6 / 4) / 2 and summary["serial"]["gain"] == 1
    assert summary["ahead"]["peak_of_trunk_and_slots"] == 1.1 and summary["ahead"]["of_the_disk"] == 1.5


def test_each_size_has_its_folder(tmp_path):
    assert runtime.own_folder(tmp_path, 4.0) == tmp_path / "runtime-4"
    assert runtime.own_folder(tmp_path, 0.5) == tmp_path / "runtime-0.5"


def test_profile_contains_each_count_once():
    profile = runtime.profile(layers=2)
    for number, layer in enumerate(profile["layers"]):
        assert layer["layer"] == number and sorted(layer["selections"]) == list(range(1, runtime.EXPERTS + 1))
        assert sum(layer["selections"]) == layer["tokens"] * runtime.TOP_K
    assert profile["layers"][0]["selections"] != profile["layers"][1]["selections"]


def test_reports_medians_of_warm_starts():
    assert runtime.middle([{"disk": 2, "start": 1}, {"disk": 1, "start": 4}, {"disk": 9, "start": 3}]) == {"disk": 2, "start": 3}


def test_compares_memory_with_trunk_and_slots():
    shards = [{"kind": "attention", "weight_bytes": 10}, {"kind": "experts", "weight_bytes": 1000}]
    manifest = {"shards": shards, "model": {"layers": 3}}
    assert runtime.trunk_and_slots(manifest, capacity=2) == 10 + 3 * 2 * runtime.EXPERT_BYTES


def test_compares_engines_within_a_round():
    def figures(speed, tokens=(1,)):
        return {"prefill": speed, "decode": speed, "tokens": list(tokens)}

    rounds = [{"reference": figures(base), "onnxruntime": figures(3 * base), "openvino": figures(base / 2, tokens)}
              for base, tokens in ((1, (1,)), (10, (2,)))]
    facts = {engine: {"start": 1, "peak_bytes": 1} for engine in engines.ENGINES}
    summary = engines.summary(rounds, 2e9, facts)
    assert (summary["onnxruntime"]["decode_ratio"], summary["openvino"]["prefill_ratio"]) == (3, 0.5)
    assert summary["reference"]["weight_gigabytes_per_second"] == 5.5 * 2
    assert summary["onnxruntime"]["same_tokens"] and not summary["openvino"]["same_tokens"]
    assert len(engines.table({"f32": summary}).splitlines()) == 2 + 3


@pytest.mark.skipif(not bench.MOEC.exists(), reason="needs the release build")
def test_every_benchmarked_form_can_be_exported(tmp_path, monkeypatch):
    small = {**engines.config(4), "hidden_size": 128, "moe_intermediate_size": 64, "num_attention_heads": 4}
    monkeypatch.setattr(engines, "config", lambda _: small)
    for form, flags in engines.FORMS.items():
        out = engines.make_export(bench.MOEC, tmp_path / str(len(form)) / form.replace(" ", "_"), 4, flags)
        assert engines.weights_of(out) > 0, form
    server = engines.open_engine(bench.MOEC, out, "reference")
    figures = engines.one_round({"reference": server}, number=1, chunks=1, tokens=3)["reference"]
    assert figures["prefill"] > 0 and figures["decode"] > 0 and len(figures["tokens"]) == 3
    assert engines.peak_bytes(server.process) > 0
    server.close()
    assert engines.prompt_of(64, 1)[0] != engines.prompt_of(64, 2)[0]
