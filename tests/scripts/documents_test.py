"""The documents agree with the tree: length, families, flags, and links."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DESCRIPTORS = [json.loads(file.read_text()) for file in sorted((ROOT / "models/families").glob("*.json"))]
FAMILIES = [item["model_type"] for item in DESCRIPTORS if "model_type" in item and "plan_only" not in item]
DOCUMENTS = [
    file for top in ["", "ir", "passes", "models", "backends", "frontends", "tests", "scripts"]
    for file in sorted((ROOT / top).glob("**/*.md" if top else "*.md"))
]  # fmt: skip
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_readme_has_at_most_200_lines():
    assert len(README.splitlines()) <= 200


@pytest.mark.parametrize("page", ["README.md", "models/families/SUPPORTED.md"])
def test_every_family_is_listed(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(FAMILIES) > 10
    assert [family for family in FAMILIES if f"`{family}`" not in text] == []


def test_every_readme_flag_exists():
    scripts = [ROOT / "scripts" / name for name in ("make_golden.py", "run_with_onnxruntime.py")]
    rooms = [ROOT / "frontends/cli", ROOT / "frontends/export/options"]
    files = [*(file for room in rooms for file in sorted(room.rglob("*.cc"))), *scripts]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    others = {"--build", "--preset", "--local-dir", "--help", "--vendors"}  # flags of other programs and scripts
    assert {flag for flag in flags - others if f'{flag}"' not in sources and f"{flag}," not in sources} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_resolves(document):
    links = [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
