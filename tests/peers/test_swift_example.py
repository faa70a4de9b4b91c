"""backends/formats/coreml/RunExport.swift. Without a Swift compiler, the tests read the file as text, and decode manifests
by its structs as JSONDecoder does."""

import json
import re

import pytest

from goldens import REPO

SOURCE = (REPO / "backends/formats/coreml/RunExport.swift").read_text()
TYPES = {"String": str, "Int": int, "Float": (int, float)}
EXPORTS = {
    "tinymoe": ("--tokens", "1,16", "--widths", "functions"),
    "tinytagger": ("--tokens", "192"),
    "experts": ("--routing", "host", "--experts-per-shard", "1", "--widths", "functions"),  # of tinymoe
}


def code(source):
    """The source without comments and without the content of literals."""
    return re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda found: '""' if found[0][0] == '"' else "", source)


def structs():
    """Maps each Codable struct to its fields: name → type."""
    found = {}
    for name, body in re.findall(r"^struct (\w+): Codable \{(.*?)\}$", code(SOURCE), re.MULTILINE | re.DOTALL):
        fields = found[name] = {}
        for line in re.findall(r"let ([^;\n]+)", body):
            for names, kind in re.findall(r"([\w, ]+): ([\w\[\]?]+)", line):
                fields |= {each.strip(): kind for each in names.split(",") if each.strip()}
    return found


def snake_case(name):
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def decode(value, kind, known, place):
    """Raises ValueError, as JSONDecoder does, if a field is missing or has another type."""
    if kind.endswith("?"):
        return None if value is None else decode(value, kind[:-1], known, place)
    if kind.startswith("["):
        return [decode(each, kind[1:-1], known, f"{place}[]") for each in value]
    if kind in TYPES:
        if not isinstance(value, TYPES[kind]) or isinstance(value, bool):
            raise ValueError(f"{place} is {value!r}, not of type {kind}")
        return value
    for name, field in known[kind].items():
        key = snake_case(name)
        if key not in value and not field.endswith("?"):
            raise ValueError(f"{place} has no {key}")
        decode(value.get(key), field, known, f"{place}.{key}")
    return value


@pytest.fixture(scope="module")
def manifest(export):
    def read(model):
        checkpoint = REPO / "models" / ("tinymoe" if model == "experts" else model)
        folder = export(checkpoint, "--target", "ane", *EXPORTS[model])
        return json.loads((folder / "manifest.json").read_text())

    return read


@pytest.mark.parametrize("model", EXPORTS)
def test_structs_decode_manifests(model, manifest):
    decode(manifest(model), "Manifest", structs(), "manifest")


@pytest.mark.parametrize("model", EXPORTS)
def test_handles_every_source_and_sink(model, manifest):
    handled = set(re.findall(r'"(\w+)"', "".join(re.findall(r"case (.*?):", SOURCE))))
    steps = manifest(model)["schedule"]
    assert {binding["source"] for step in steps for binding in step["inputs"]} <= handled
    assert {binding["sink"] for step in steps for binding in step["outputs"]} == {"edge", "logits"}


def test_optional_fields_are_absent_in_a_model(manifest):
    optional = [name for name, kind in structs()["Manifest"].items() if kind.endswith("?")]
    assert optional == ["rope", "tagging"] and "tagging" not in manifest("tinymoe")


def test_labels_follow_its_schemes(manifest):
    assert {label["name"][:1] for label in manifest("tinytagger")["tagging"]["labels"]} == set("OBIES")


def test_missing_and_mistyped_fields_fail(manifest):
    known, whole = structs(), manifest("tinymoe")
    assert len(known) >= 15 and known["InputBinding"]["ahead"] == "Int" and known["Shard"]["widths"] == "[Width]"
    for wrong in ({**known, "Build": {**known["Build"], "cachePage": "Int"}}, {**known, "Label": {}, "Model": {"vocab": "String"}}):
        with pytest.raises(ValueError, match="cache_page|vocab"):
            decode(whole, "Manifest", wrong, "manifest")


def test_is_short_and_balanced():
    lines, text = SOURCE.splitlines(), code(SOURCE)
    assert len(lines) <= 300 and max(map(len, lines)) <= 127 and lines[0].startswith("// Never compiled")
    for pair in ("{}", "()", "[]"):
        assert text.count(pair[0]) == text.count(pair[1])
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
