"""Pipes, devices and links in place of files: no command hangs, reads endlessly, or replaces such a file."""

import os
import shutil
import stat
import subprocess

import pytest

from conftest import find_binary
from exports import codes_of, finish, run
from goldens import REPO

MOEC = str(find_binary())
TINYMOE = REPO / "models/tinymoe"
TAGGER = REPO / "models/tinytagger"
GOLDEN = REPO / "tests/golden/mixtral_a"


def moec(*words, **how):
    """Fails if the command does not exit by itself."""
    return subprocess.run([MOEC, *map(str, words)], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, **how)


def pipe_at(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def copy_of(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    return copy


def exported(tmp_path):
    out = tmp_path / "export"
    if out.exists():
        return out
    assert moec("export", TINYMOE, "--out", out, "-q").returncode == 0
    return out


def fed_by_a_pipe(name, tmp_path):
    """Returns the command with a pipe without a writer as the input `name`."""
    out = tmp_path / "out"
    pipe = pipe_at(tmp_path / "pipe")
    if name in ("config.json", "model.safetensors", "tokenizer.json"):
        copy = copy_of(TINYMOE, tmp_path)
        pipe_at(copy / name)
        return ["export", copy, "--out", out]
    if name == "model.safetensors.index.json":
        copy = copy_of(TINYMOE, tmp_path)
        (copy / "model.safetensors").rename(copy / "model-1.safetensors")
        pipe_at(copy / name)
        return ["export", copy, "--out", out]
    if name == "viterbi_calibration.json":
        copy = copy_of(TAGGER, tmp_path)
        pipe_at(copy / name)
        return ["export", copy, "--out", out]
    if name in ("golden.json", "golden.safetensors"):
        copy = copy_of(GOLDEN, tmp_path)
        pipe_at(copy / name)
        return ["validate", exported(tmp_path), "--golden", copy]
    if name in ("attn/L00.t1.onnx", "attn/L00.data", "manifest.json", "manifest.bin", "embed.bin"):
        export = exported(tmp_path)
        pipe_at(export / name)
        return ["check", export]
    if name == "export.journal":
        out.mkdir()
        pipe_at(out / name)
        return ["export", TINYMOE, "--out", out]
    return {
        "opt": ["opt", pipe],
        "--measured": ["check", exported(tmp_path), "--measured", pipe],
        "--loads": ["export", TINYMOE, "--out", out, "--experts-per-shard", "1", "--device", "a=1GB", "--loads", pipe],
        "--target": ["export", TINYMOE, "--out", out, "--target", tmp_path / "pipe.json"],
        "--family-file": ["export", TINYMOE, "--out", out, "--family-file", pipe],
        "--prompt-file": ["run", exported(tmp_path), "--prompt-file", pipe],
        "inspect": ["inspect", pipe_at(tmp_path / "graph.onnx")],
    }[name]


@pytest.mark.parametrize("name", [
    "config.json", "model.safetensors", "tokenizer.json", "model.safetensors.index.json", "viterbi_calibration.json",
    "golden.json", "golden.safetensors", "attn/L00.t1.onnx", "attn/L00.data", "manifest.json", "manifest.bin",
    "embed.bin", "export.journal", "opt", "--measured", "--loads", "--target", "--family-file", "--prompt-file",
    "inspect"])
def test_rejects_pipes(name, tmp_path):
    pipe_at(tmp_path / "pipe.json")
    done = moec(*fed_by_a_pipe(name, tmp_path))
    assert done.returncode in (1, 2), (done.stdout, done.stderr)
    assert "error[" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["opt", "/dev/zero"], ["export", TINYMOE, "--family-file", "/dev/zero", "--out"],
                                   ["check", "--measured", "/dev/zero"], ["run", "--prompt-file", "/dev/zero"]],
                         ids=lambda words: words[0])
def test_rejects_endless_devices(words, tmp_path):
    words = [*words, tmp_path / "out"] if words[-1] == "--out" else words
    words = [words[0], exported(tmp_path), *words[1:]] if words[0] in ("check", "run") else words
    done = moec(*words)
    assert done.returncode == 2 and "regular file" in done.stdout + done.stderr, (done.stdout, done.stderr)


def test_export_replaces_a_pipe_at_the_journal(whole, tmp_path):
    expected, _ = whole(("--target", "onnx"))
    out = tmp_path / "out"
    out.mkdir()
    pipe_at(out / "export.journal.part")
    done = run(out, timeout=60)
    assert done.returncode == 0, done.stdout
    shutil.rmtree(out)
    finish(out, expected)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a device")
def test_sarif_keeps_a_device(tmp_path):
    device = tmp_path / "null"
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    done = moec("check", exported(tmp_path), "--sarif", device)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_sarif_follows_no_link(tmp_path):
    target = tmp_path / "report.sarif"
    target.write_text("old")
    (tmp_path / "link").symlink_to(target)
    done = moec("check", exported(tmp_path), "--sarif", tmp_path / "link")
    assert done.returncode == 2 and "output.link" in done.stderr, (done.stdout, done.stderr)
    assert (tmp_path / "link").is_symlink() and target.read_text() == "old"


@pytest.mark.parametrize("name", ["attn", "moe", "export.journal", "embed.bin", "manifest.json"])
def test_planted_links_are_not_followed(name, tmp_path):
    """A link to an outside folder or file exists before the first export, and before an export with --force."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    for what in (victim, victim / "file"):
        for force in ([], ["--force"]):
            out = tmp_path / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            (out / name).symlink_to(what)
            done = moec("export", TINYMOE, "--out", out, "--json", *force)
            assert done.returncode == 2, done.stdout
            assert set(codes_of(done)) <= {"export.foreign_file", "export.out_not_empty", "export.journal",
                                           "file.not_regular"}, done.stdout
            assert [path.name for path in victim.iterdir()] == ["file"]
            assert (victim / "file").read_text() == "precious"
