"""The wheel and the Debian package of the release program work without the build; completions know every option.

The tests of packages need a release build, and are skipped for other programs.
"""

import os
import re
import subprocess
import sys
import venv

import pytest
from conftest import find_binary
from goldens import REPO

BUILD = find_binary().parents[1]
released = pytest.mark.skipif(BUILD.name != "release", reason="packages contain the release program")

sys.path.insert(0, str(REPO / "scripts"))

import make_shell_files  # noqa: E402


def said(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def expect_to_work(moec, folder):
    """Exports, checks and runs tinymoe."""
    out = folder / "out"
    said(moec, "export", REPO / "models/tinymoe", "--out", out, "--tokens", "1,16", "-q")
    assert said(moec, "check", out).rstrip().endswith("PASSED")
    assert said(moec, "run", out, "--prompt", "def ", "--max-tokens", 8).startswith("def ")


@released
def test_wheel_installs_and_works(tmp_path):
    said(sys.executable, REPO / "scripts/make_wheel.py", "--moec", find_binary(), "--out", tmp_path / "wheel")
    wheel, = (tmp_path / "wheel").glob("moec-*-py3-none-manylinux_*.whl")
    assert wheel.stat().st_size <= 12_000_000
    venv.create(tmp_path / "venv", with_pip=True)
    said(tmp_path / "venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    expect_to_work(tmp_path / "venv/bin/moec", tmp_path)


@released
def test_debian_package_has_its_files(tmp_path):
    said("cpack", "-G", "DEB", "-B", tmp_path, "--config", BUILD / "CPackConfig.cmake")
    package, = tmp_path.glob("moec_*.deb")
    depends = said("dpkg-deb", "-f", package, "Depends")
    assert all(library in depends for library in ("libonnx1", "libprotobuf32", "libc6 (>= 2.34)"))
    said("dpkg-deb", "-x", package, tmp_path / "root")
    expect_to_work(tmp_path / "root/usr/bin/moec", tmp_path)
    pages = {page.name for page in (tmp_path / "root/usr/share/man/man1").iterdir()}
    # Schemas refer to one another by relative paths.
    assert (tmp_path / "root/usr/share/moec/schemas/frontends/jobs/check/check.schema.json").is_file()
    assert (tmp_path / "root/usr/share/moec/schemas/ir/base/report_parts.schema.json").is_file()
    assert {"moec.1", "moec-export.1", "moec-family-check.1"} <= pages


SHARD = """
shard gated model {
  input %x : f16[1,8,4,1]{channels}
  %gate = weight @gate:f16[12,8] : f16[12,8]
  %up = weight @up:f16[12,8] : f16[12,8]
  %down = weight @down:f16[8,12] : f16[8,12]
  %y = gated_mlp %x, %gate, %up, %down {activation = silu} : f16[1,8,4,1]{channels}
  output y = %y
}
"""


@released
def test_libraries_are_found(tmp_path):
    """find_package(moec) of another project: its program lowers a shard to convolutions."""
    said("cmake", "--install", BUILD, "--prefix", tmp_path / "prefix", "--component", "development")
    said("cmake", "-S", REPO / "tests/consumer", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}",
         f"-DCMAKE_CXX_COMPILER={os.environ.get('CXX', 'c++')}")
    said("cmake", "--build", tmp_path / "build")
    (tmp_path / "gated.ir").write_text(SHARD)
    lowered = said(tmp_path / "build/lower_shard", tmp_path / "gated.ir", "ane")
    assert lowered.count(" conv ") == 3 and "gated_mlp" not in lowered


@pytest.fixture(scope="module")
def shell_files():
    return make_shell_files.files_of(str(find_binary()))


def test_files_have_each_option(shell_files):
    for command in ("export", "run", "check", "family check"):
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", "\n".join(
            line[:30] for line in said(find_binary(), *command.split(), "--help-all").splitlines()
            if line.strip().startswith("-"))))
        assert len(options) >= 3
        page = shell_files[f"man/man1/moec-{command.replace(' ', '-')}.1"].replace("\\-", "-")
        for option in options:
            assert option in page
            assert all(option.lstrip("-") in shell_files[name] for name in shell_files if not name.startswith("man/"))


@pytest.mark.parametrize(("words", "found"), ((("moec", "exp"), {"export"}), (("moec", "run", "--engine", ""), {
    "cpu", "reference", "openvino"}), (("moec", "family", "check", "--conf"), {"--config"})))
def test_bash_completes(words, found, shell_files, tmp_path):
    script = tmp_path / "moec"
    script.write_text(shell_files["bash-completion/completions/moec"])
    quoted = " ".join(f"'{word}'" for word in words)
    command = f'source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _moec; printf "%s\\n" "${{COMPREPLY[@]}}"'
    assert set(said("bash", "-c", command, env={**os.environ}).split()) == found


def test_man_pages_render(shell_files, tmp_path):
    """groff warns about unknown requests, which are lines of text that begin with a dot."""
    page = tmp_path / "moec.1"
    page.write_text(shell_files["man/man1/moec-export.1"])
    groff = subprocess.run(["which", "groff"], capture_output=True, check=False)
    if groff.returncode:
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", page], capture_output=True, text=True, check=True)
    assert not done.stderr and "--target" in re.sub(".\x08", "", done.stdout)
