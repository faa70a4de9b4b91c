#!/usr/bin/env python3
"""Writes the seeds of the GGUF fuzz target: the header of a tiny model of each family, and a dictionary of the names of
architectures, keys and tensors in these models.

    scripts/make_gguf_seeds.py --out tests/reproducers/gguf_fuzz --dictionary tests/fuzz/gguf_fuzz.dict

The models are goldens that llama.cpp supports, or variants of goldens (tests/peers/gguf_cases.py), written with the `gguf`
package, every second one in Q8_0. A seed consists of a file without its tensor data and one byte, from which gguf_fuzz.cc
computes the length of the data. Requires the packages of tests/peers/requirements.txt.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "tests/peers"))
LIKE_OTHERS = ("glm4_moe_lite", "glm4v_moe_text", "solar_open")  # families whose files are read as those of another one
PAYLOAD_UNIT = 4096  # bytes, as in gguf_fuzz.cc


def first_cases():
    """Maps each GGUF family to the name of one golden."""
    from gguf_cases import REPRESENTABLE, VARIANTS

    cases = {}
    for case in [*REPRESENTABLE, *VARIANTS]:
        config = REPO / "tests/golden" / case / "config.json"
        if config.is_file():
            values = json.loads(config.read_text())
            cases.setdefault(values.get("text_config", values)["model_type"], case)
    return {family: case for family, case in cases.items() if family not in LIKE_OTHERS}


def write_model_of(case, scratch, tensor_type):
    """Writes the GGUF file of a golden; returns its contents and path."""
    from gguf_cases import VARIANTS, write_variant
    from gguf_models import read_model, write_model

    folder = REPO / "tests/golden" / case
    if case in VARIANTS:
        folder = write_variant(case, scratch / case, folder)
    model = read_model(folder)
    return model, write_model(model, scratch / f"{case}.gguf", tensor_type)[0]


def seed_of(path):
    import gguf

    data, start = path.read_bytes(), gguf.GGUFReader(path).data_offset
    units = -(-(len(data) - start) // PAYLOAD_UNIT)
    assert units < 256, f"{path.name} has too much tensor data for a seed"
    return data[:start] + bytes([units])


def sized(text):
    """A string in GGUF's encoding."""
    return len(text).to_bytes(8, "little") + text.encode()


def words_of(model):
    """Names of keys and tensors without architecture and layer number, which differ between models."""
    yield sized(model.arch)
    for key in model.keys:
        yield key.removeprefix(f"{model.arch}").encode()
    for name in model.tensors:
        yield re.sub(r"^blk\.\d+", "", name).encode()


def dictionary_text(words):
    def quoted(word):
        return "".join(chr(byte) if chr(byte).isalnum() or byte in b"._-" else f"\\x{byte:02x}" for byte in word)

    return "# Written by scripts/make_gguf_seeds.py.\n" + "".join(f'"{quoted(word)}"\n' for word in sorted(words))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder of the seeds")
    parser.add_argument("--dictionary", type=Path, required=True, metavar="FILE", help="output file of the dictionary")
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    words = set()
    with tempfile.TemporaryDirectory() as scratch:
        for number, (family, case) in enumerate(first_cases().items()):
            model, path = write_model_of(case, Path(scratch), ("F32", "Q8_0")[number % 2])
            (flags.out / family).write_bytes(seed_of(path))
            words.update(words_of(model))
    flags.dictionary.write_text(dictionary_text(words))


if __name__ == "__main__":
    main()
