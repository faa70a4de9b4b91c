"""models/families/class_defaults.json matches the version of transformers that it names. Skipped if that version is not
installed; requires PyTorch, like tests/peers/test_remade_goldens.py.
"""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from goldens import REPO


def installed_version():
    try:
        return metadata.version("transformers")
    except metadata.PackageNotFoundError:
        return None


def test_table_matches_transformers():
    named = json.loads((REPO / "models/families/class_defaults.json").read_text())["transformers"]
    if installed_version() != named:
        pytest.skip(f"needs transformers {named}")
    subprocess.run([sys.executable, REPO / "scripts/derive_class_defaults.py", "--check"], check=True)
