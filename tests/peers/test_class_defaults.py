"""models/families/class_defaults.json is what the transformers that it names says. Skipped where that
version is not installed; it needs PyTorch, as tests/peers/test_remade_goldens.py does.
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


def test_the_table_is_what_transformers_says():
    named = json.loads((REPO / "models/families/class_defaults.json").read_text())["transformers"]
    if installed_version() != named:
        pytest.skip(f"needs transformers {named}")
    subprocess.run([sys.executable, REPO / "scripts/derive_class_defaults.py", "--check"], check=True)
