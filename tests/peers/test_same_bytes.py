"""The same checkpoint and options produce the same bytes for any number of jobs."""

import pytest

EXPORTS = {
    "conv": ("--tokens", "1,16"),
    "host_bank_f16": ("--tokens", "1,8", "--routing", "host", "--experts-per-shard", "2",
                      "--experts", "bank", "--form", "matmul", "--dtype", "f16",
                      "--head-slices", "3"),
}


def files_of(folder):
    """Maps the path of every file to its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("case", ["tinymoe", "mixtral_b"])
def test_jobs_and_runs_produce_equal_bytes(case, name, moec, golden, tmp_path):
    exported = []
    for run, jobs in enumerate((1, 4, 1)):
        out = tmp_path / f"run{run}"
        moec("export", golden(case).checkpoint, "--out", out, "--quiet", "--jobs", jobs,
             *EXPORTS[name])
        exported.append(files_of(out))
    assert len(exported[0]) > 10
    for other in exported[1:]:
        assert other.keys() == exported[0].keys()
        assert [path for path in other if other[path] != exported[0][path]] == []
