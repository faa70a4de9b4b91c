"""The page of `moec report` in headless Chromium: its tables, its warnings, the keyboard, and the rules of axe-core."""

import html
import json
import os
import re
import shutil
import subprocess
from importlib.resources import files

import pytest
from conftest import find_binary
from goldens import REPO

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def moec(*words, code=0):
    done = subprocess.run([find_binary(), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


def browse(page, *flags):
    """The document after its script ran."""
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                           f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=20000", *flags,
                           "--dump-dom", page.as_uri()], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def texts(dom, tag):
    found = re.findall(rf"<{tag}(?: [^>]*)?>(.*?)</{tag}>", dom, re.S)
    return [html.unescape(re.sub(r"<[^>]*>", "", text)) for text in found]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "tinymoe"
    moec("export", REPO / "models/tinymoe", "--out", out, "--target", "ane", "--max-shard-mb", 1, "--weights", "int4-lut", "-q")
    moec("validate", out, "--golden", REPO / "tests/golden/tinymoe", "--record")
    return out


@pytest.fixture(scope="module")
def page(out, tmp_path_factory):
    page = tmp_path_factory.mktemp("page") / "page.html"
    moec("report", out, "--html", page)
    return page


def with_script(page, script, folder):
    """A copy of the page that writes the JSON of the script's result, a promise or a value, into its document."""
    copy = folder / "with_script.html"
    tail = f"""<script>Promise.resolve((() => {{ {script} }})()).then((result) => {{
      const said = document.createElement("pre"); said.id = "result"; said.textContent = JSON.stringify(result);
      document.body.append(said); }});</script></body>"""
    copy.write_text(page.read_text().replace("</body>", tail))
    return copy


def result_of(dom):
    return json.loads(html.unescape(re.search(r'<pre id="result">(.*?)</pre>', dom, re.S).group(1)))


def changed(page, folder, change):
    """A copy of the page with other data."""
    text = page.read_text()
    line = re.search(r"^const data = (.*);$", text, re.M)
    data = json.loads(line.group(1))
    change(data)
    copy = folder / "changed.html"
    copy.write_text(text[: line.start(1)] + json.dumps(data) + text[line.end(1):])
    return copy


def test_page_lists_shards_and_results(page, out):
    dom = browse(page)
    manifest = json.loads((out / "manifest.json").read_text())
    assert "each expert of each layer is present" in texts(dom, "li") and "each shard fits its budget" in texts(dom, "li")
    rows = texts(dom, "tr")
    for shard in manifest["shards"]:
        assert any(row.startswith(shard["name"]) and "on Neural Engine" in row for row in rows)
    assert sum("f32" in row and "e-" in row for row in rows) == len(manifest["golden"]) > 0
    assert {"Experts", "Shards", "Agreement with the reference", "Cost of a token", "Weights", "Passes", "Timeline"} == set(texts(dom, "h2"))


def test_timeline_sums_files_by_time(out, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    files = {file["path"]: file["bytes"] for shard in manifest["shards"]
             for file in [*shard["data"], *(width["file"] for width in shard["widths"])]}
    late, *early = sorted(files)
    for path in early:
        os.utime(copy / path, (1000, 1000))
    os.utime(copy / late, (1010, 1010))
    data = json.loads(moec("report", copy, "--json"))["exports"][0]["written"]
    assert data["seconds"] == 10 and len(data["spans"]) == 20
    assert data["spans"][0] == [len(early), sum(files[path] for path in early)]
    assert data["spans"][-1] == [1, files[late]] and data["spans"][1] == [0, 0]
    os.utime(copy / late, (1000, 1000))
    assert json.loads(moec("report", copy, "--json"))["exports"][0]["written"] is None
    moec("report", copy, "--html", tmp_path / "page.html")
    assert "Timeline" not in texts(browse(tmp_path / "page.html"), "h2")


def test_timeline_counts_hard_links_once(tmp_path):
    out = tmp_path / "widths"
    moec("export", REPO / "models/tinymoe", "--out", out, "--target", "ane", "--tokens", "1,16", "--widths", "separate", "-q")
    data = json.loads(moec("report", out, "--json"))["exports"][0]
    written = sum(span[1] for span in data["written"]["spans"])
    assert written == sum(shard[4] for shard in data["shards"])
    assert written < sum(path.stat().st_size for folder in ("attn", "moe") for path in (out / folder).rglob("*") if path.is_file())


def test_page_needs_no_network(page):
    assert not re.search(r"""(src|href)=["'](?!#)|url\(|@import|fetch\(|https?:""", page.read_text())
    assert page.stat().st_size < 100_000


def test_page_warns_of_holes(page, tmp_path):
    def change(data):
        shards = data["exports"][0]["shards"]
        moe = [shard for shard in shards if shard[2] == [0, 16]]
        moe[0][2] = [0, 15]
        moe[1][2] = {"ids": [*range(16), 3]}
        data["exports"][0]["budgets"] = {"moe": 1000}
    warned = texts(browse(changed(page, tmp_path, change)), "li")
    assert "missing experts: 1 (layer 0 expert 15)" in warned
    assert "experts present twice: 1 (layer 1 expert 3)" in warned
    assert "shards above their budget: 4" in warned


def test_page_compares_exports(out, tmp_path):
    other = tmp_path / "other"
    moec("export", REPO / "models/tinymoe", "--out", other, "-q")
    moec("report", out, "--against", other, "--html", tmp_path / "two.html")
    rows = texts(browse(tmp_path / "two.html"), "tr")
    assert any(re.match(r"targetaneonnxdifferent", row) for row in rows)
    assert any(re.match(r"routingrankrankequal", row) for row in rows)


def test_names_cannot_end_the_script(out, tmp_path):
    name = "<!--</script><b>bold"
    (tmp_path / "deep").mkdir()
    folder = tmp_path / "deep" / name.replace("/", "_")
    shutil.copytree(out, folder)
    moec("report", folder, "--html", tmp_path / "odd.html")
    dom = browse(tmp_path / "odd.html")
    assert texts(dom, "h1") == [str(folder)] and "<b>" not in dom


def test_keyboard_reads_experts(page, tmp_path):
    script = """const canvas = document.querySelector("canvas"); canvas.focus();
      for (const key of ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown"])
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
      return document.getElementById("cell").textContent;"""
    assert result_of(browse(with_script(page, script, tmp_path))) == "Layer 1, expert 2: in L01.moe"


@pytest.mark.parametrize("width", [1200, 700, 380])
def test_axe_finds_nothing_serious(page, tmp_path, width):
    axe = (files("axe_core_python") / "axe.min.js").read_text().replace("</script", "<\\/script")
    copy = tmp_path / "axe.html"
    copy.write_text(page.read_text().replace("</body>", f"<script>{axe}</script></body>"))
    dom = browse(with_script(copy, "return axe.run(document);", tmp_path), f"--window-size={width},1000")
    found = result_of(dom)
    assert len(found["passes"]) > 10
    assert [rule["id"] for rule in found["violations"] if rule["impact"] in ("serious", "critical")] == []
