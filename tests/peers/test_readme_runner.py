"""The runner in backends/manifest/README.md, run as printed, generates the same text as run_with_onnxruntime.py."""

import re
import subprocess
import sys

import pytest

from goldens import REPO
from run_with_onnxruntime import Runner

README = (REPO / "backends/manifest/README.md").read_text()
PROMPT, COUNT = [10, 20, 30, 7, 11], 6
OPTIONS = {
    "tinymoe": ("--routing", "host", "--experts-per-shard", "2"),
    "qwen3_moe_a": (),
    "deepseek_v3_a": ("--mla", "latent"),
    "gemma4_a": (),
    "llama4_text_a": ("--tokens", "4"),
    "lfm2_moe_a": (),
    "qwen3_next_a": (),
    "granitemoehybrid_a": (),
    "zaya_a": (),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("runner") / "runner.py"
    path.write_text(re.search(r"<!-- runner\.py -->\n```python\n(.*?)```", README, re.DOTALL)[1])
    return path


@pytest.mark.parametrize("case", OPTIONS)
def test_runner_generates_equal_text(case, program, export, golden):
    folder = export(golden(case).checkpoint, *OPTIONS[case])
    run = subprocess.run([sys.executable, program, folder, str(COUNT), ",".join(map(str, PROMPT))],
                         capture_output=True, text=True, check=True)
    runner = Runner(folder, threads=1)
    runner.manifest["model"]["eos_tokens"] = []
    assert run.stdout.strip() == ",".join(map(str, runner.generate(PROMPT, COUNT)))


def test_runner_skips_idle_groups(program, export, golden, tmp_path):
    """The files of an idle group may be missing."""
    counted = program.read_text().replace("edges[taken[entry", "print('idle', file=sys.stderr); edges[taken[entry")
    (tmp_path / "counted.py").write_text(counted)
    folder = export(golden("tinymoe").checkpoint, *OPTIONS["tinymoe"])
    run = subprocess.run([sys.executable, tmp_path / "counted.py", folder, "1", "10,20"], capture_output=True, text=True,
                         check=True)
    runner = Runner(folder, threads=1)
    for token in (10, 20):
        runner.feed([token])
    assert run.stderr.count("idle") == runner.skipped_steps > 0
