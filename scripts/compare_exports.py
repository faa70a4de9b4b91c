#!/usr/bin/env python3
"""Compares two trees of exports byte by byte, except for the metadata listed below.

    scripts/compare_exports.py A B [--ignore PATTERN]

Use it for a change that only adds or changes metadata of emitted files: A contains exports made before the change, B
exports of the same commands made after the change. Prints one line per difference and exits with 1, or prints a summary
and exits with 0. Allowed differences:

- in .onnx files the metadata_props, and in model.mlmodel files the userDefined metadata, whose key
  matches PATTERN (default: the owners of weights, `moec.weights` and `moec.FUNCTION.weights`);
- in manifest.json the sizes and digests of those files and of manifest.bin, and schema_version;
- manifest.bin, which is another encoding of manifest.json.

All other files must be equal, and both trees must have the same files.
"""

import argparse
import json
import pathlib
import re
import sys

OWNERS = r"moec(\.[^.]+)?\.weights"

# Field numbers on the path from the root message to metadata entries: ModelProto.metadata_props, and
# Model.description.metadata.userDefined. Field 1 of an entry is the key.
METADATA_FIELDS = {".onnx": [14], ".mlmodel": [2, 100, 100]}


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def write_varint(value):
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(written) + bytes([value])


def fields(message):
    """Yields (number, wire type, bytes of the field with its tag, content) for each field of a message."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = read_varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            size, at = read_varint(message, at)
            content, at = message[at : at + size], at + size
        else:
            start = at
            at = read_varint(message, at)[1] if wire == 0 else at + {1: 8, 5: 4}[wire]
            content = message[start:at]
        if at > len(message):
            raise ValueError("a field exceeds its message")
        yield number, wire, message[begin:at], content


def key_of(entry):
    return next((content.decode() for number, wire, _, content in fields(entry) if (number, wire) == (1, 2)), "")


def without_entries(message, path, ignored):
    """Returns the message without the entries at the field path whose key matches."""
    kept = bytearray()
    for number, wire, raw, content in fields(message):
        if wire != 2 or number != path[0]:
            kept += raw
        elif len(path) > 1:
            inner = without_entries(content, path[1:], ignored)
            kept += write_varint(number << 3 | 2) + write_varint(len(inner)) + inner
        elif not ignored.fullmatch(key_of(content)):
            kept += raw
    return bytes(kept)


def is_graph(name):
    return pathlib.PurePath(name).suffix in METADATA_FIELDS


def comparable_manifest(node):
    """Returns a manifest without the values that depend on the metadata of graph files."""
    if isinstance(node, list):
        return [comparable_manifest(part) for part in node]
    if not isinstance(node, dict):
        return node
    changes = isinstance(node.get("path"), str) and (is_graph(node["path"]) or node["path"] == "manifest.bin")
    left_out = {"bytes", "digest", "sha256"} if changes else {"schema_version"}
    return {name: comparable_manifest(part) for name, part in node.items() if name not in left_out}


def first_difference(a, b, place=""):
    """Returns the path of the first difference between two JSON values; None if they are equal."""
    if type(a) is type(b) and isinstance(a, (dict, list)) and len(a) == len(b):
        keys = a if isinstance(a, dict) else range(len(a))
        for key in keys:
            if isinstance(a, dict) and key not in b:
                return f"{place}.{key}"
            if found := first_difference(a[key], b[key], f"{place}.{key}"):
                return found
        return None
    return None if a == b else place or "."


def difference(a, b, ignored):
    """Describes the difference between two files; returns None if they differ only in allowed ways."""
    if a.name == "manifest.bin":
        return None
    before, after = a.read_bytes(), b.read_bytes()
    if a.name == "manifest.json":
        found = first_difference(comparable_manifest(json.loads(before)), comparable_manifest(json.loads(after)))
        return found and f"differs at {found.removeprefix('.')}"
    if path := METADATA_FIELDS.get(a.suffix):
        before, after = without_entries(before, path, ignored), without_entries(after, path, ignored)
    return None if before == after else f"differs ({len(before)} and {len(after)} bytes compared)"


def files_under(root):
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


def compare(a, b, pattern=OWNERS):
    """Returns (names of all files, one line per difference)."""
    ignored = re.compile(pattern)
    names, others = files_under(a), files_under(b)
    lines = [f"{name}: only in {a if name in names else b}" for name in sorted(names ^ others)]
    for name in sorted(names & others):
        if found := difference(a / name, b / name, ignored):
            lines.append(f"{name}: {found}")
    return names | others, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", type=pathlib.Path)
    parser.add_argument("b", type=pathlib.Path)
    parser.add_argument("--ignore", default=OWNERS, help="keys of metadata that may differ")
    given = parser.parse_args()
    names, lines = compare(given.a, given.b, given.ignore)
    graphs = sum(map(is_graph, names))
    print("\n".join(lines) or f"{len(names)} files are equal, {graphs} of them except for metadata {given.ignore}")
    left_out = sum(pathlib.PurePath(name).name == "manifest.bin" for name in names)
    if left_out:
        print(f"skipped {left_out} files manifest.bin, which mirror manifest.json")
    return 1 if lines or not names else 0


if __name__ == "__main__":
    sys.exit(main())
