"""Exports and calibrations in the tasks of a Slurm job array (scripts/slurm)."""

import json

import pytest

import slurm_cluster
from conftest import find_binary
from exports import files_of
from goldens import REPO

SCRIPT = REPO / "scripts/slurm/export.sbatch"
LIMITS = ["--cpus-per-task=1", "--mem=512"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if why := slurm_cluster.missing():
        pytest.skip(f"Slurm cannot be started here: {why}")
    cluster = slurm_cluster.SlurmCluster(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.stop()


@pytest.fixture
def model(tmp_path):
    """A config of some 100 MB of weights, so that a task runs for a while."""
    config = json.loads((REPO / "models/tinymoe/config.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "moe_intermediate_size": 2048}))
    return path


def words_of(model, out):
    return [SCRIPT, model, "--out", out, "--seeded-weights", 3, "--tokens", "1,4", "--max-shard-mb", 4]


def submit(cluster, *words, flags=(), **environment):
    return cluster.submit(*LIMITS, *flags, *words, MOEC=str(find_binary()), **environment)


def test_array_and_join_give_one_export(cluster, model, moec, tmp_path):
    words = words_of(model, tmp_path / "out")
    array = submit(cluster, *words, flags=["--array=0-2"])
    join = submit(cluster, *words, flags=[f"--dependency=afterok:{array}"])
    assert cluster.wait_for(join) == ["COMPLETED"], cluster.logs()
    moec("export", *words_of(model, tmp_path / "whole")[1:], "--quiet")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_requeued_task_continues(cluster, model, moec, failing_disk, tmp_path):
    out = tmp_path / "out"
    words = words_of(model, out)
    slow = failing_disk(CALL="write", PATH=str(out / ".parts/1"), DELAY_MS=50)
    array = submit(cluster, *words, flags=["--array=0-2"], **slow)
    journal = out / ".parts/1/export.journal"

    def parts():
        lines = journal.read_text().splitlines() if journal.exists() else []
        return [json.loads(line)["part"]["name"] for line in lines if line.startswith('{"part"') and line.endswith("}")]

    cluster.wait_until(parts, 60)
    cluster.call("scontrol", "requeue", f"{array}_1")
    # Slurm starts a requeued task after two minutes. Within the same second, it refuses the task, because the
    # credential of the first run was just revoked.
    cluster.wait_until(lambda: "PENDING" in cluster.states(f"{array}_1"), 60)
    kept = parts()
    cluster.call("scontrol", "update", f"JobId={array}_1", "StartTime=now+3")
    assert set(cluster.wait_for(array)) == {"COMPLETED"}
    assert len(parts()) > len(kept)
    assert len(set(parts())) == len(parts()), "complete shards are not exported again"
    join = submit(cluster, *words)
    assert cluster.wait_for(join) == ["COMPLETED"]
    moec("export", *words_of(model, tmp_path / "whole")[1:], "--quiet")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_join_exports_missing_shares(cluster, model, moec, tmp_path):
    words = words_of(model, tmp_path / "out")
    assert cluster.wait_for(submit(cluster, *words, flags=["--array=1", "--export=ALL,PARTS=3"])) == ["COMPLETED"]
    assert cluster.wait_for(submit(cluster, *words)) == ["COMPLETED"]
    moec("export", *words_of(model, tmp_path / "whole")[1:], "--quiet")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_calibration_in_an_array(cluster, moec, tmp_path):
    """Task 1 does not run, so the join calibrates its layers."""
    words = [REPO / "models/tinymoe", "--text", REPO / "tests/data/tinymoe_calibration.bin", "--window", 64, "--out"]
    script = REPO / "scripts/slurm/calibrate.sbatch"
    array = submit(cluster, script, *words, tmp_path / "out", flags=["--array=0,2", "--export=ALL,PARTS=3"])
    join = submit(cluster, script, *words, tmp_path / "out", flags=[f"--dependency=afterok:{array}"])
    assert cluster.wait_for(join) == ["COMPLETED"], cluster.logs()
    moec("calibrate", *words, tmp_path / "whole", "--quiet")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
