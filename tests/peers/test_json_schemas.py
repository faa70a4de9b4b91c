"""The JSON reports of all commands match their schemas, which are next to the code that writes the reports. A command with
--json and without a schema fails, and so does a member that no run shows."""

import copy
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from command_inputs import Inputs
from conftest import find_binary
from goldens import REPO
from json_runs import RUNS, SCHEMAS

MOEC = str(find_binary())
# Members that no run on this machine shows, with the reason.
UNSEEN = {
    "frontends/jobs/run/run.schema.json": {"device"},  # only the engine openvino has several devices
    "frontends/jobs/validate/validate.schema.json": {"device", "gap"},  # gap: of a greedy text that differs
}


def path_of(uri):
    return str(Path(unquote(urlparse(uri).path)).relative_to(REPO))


def retrieve(uri):
    return Resource.from_contents(json.loads((REPO / path_of(uri)).read_text()))


REGISTRY = Registry(retrieve=retrieve)


def schema_uri(path):
    return (REPO / path).as_uri()


def complaint(report, path):
    """Why a report does not match a schema; empty if it does."""
    schema = REGISTRY.resolver().lookup(schema_uri(path))
    wrong = []
    for form in schema.contents["anyOf"]:
        validator = Draft202012Validator(form, registry=REGISTRY, _resolver=schema.resolver)
        wrong.append([f"{error.json_path}: {error.message}"[:300] for error in validator.iter_errors(report)])
    # The form with the fewest errors is the one that the report was meant to have.
    return "\n".join(min(wrong, key=len))


class Walker:
    """Records the declared members that reports show: (file of the schema, JSON pointer)."""

    def __init__(self):
        self.seen = set()

    def walk(self, value, resolver, schema, place):
        """`place` is (file, pointer) of the schema."""
        if "$ref" in schema:
            found = resolver.lookup(schema["$ref"])
            base, _, pointer = schema["$ref"].partition("#")
            file = path_of(found.resolver._base_uri) if base else place[0]
            self.walk(value, found.resolver, found.contents, (file, pointer))
        for i, form in enumerate(schema.get("anyOf", [])):
            if Draft202012Validator(form, registry=REGISTRY, _resolver=resolver).is_valid(value):
                self.walk(value, resolver, form, (place[0], f"{place[1]}/anyOf/{i}"))
        if isinstance(value, dict):
            self.walk_members(value, resolver, schema, place)
        if isinstance(value, list):
            items = schema.get("items")
            for i, (one, form) in enumerate(zip(value, schema.get("prefixItems", []))):
                self.walk(one, resolver, form, (place[0], f"{place[1]}/prefixItems/{i}"))
            if isinstance(items, dict):
                for one in value:
                    self.walk(one, resolver, items, (place[0], f"{place[1]}/items"))

    def walk_members(self, value, resolver, schema, place):
        declared, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, one in value.items():
            if name in declared:
                member = (place[0], f"{place[1]}/properties/{name}")
                self.seen.add(member)
                self.walk(one, resolver, declared[name], member)
            elif isinstance(others, dict):
                self.walk(one, resolver, others, (place[0], f"{place[1]}/additionalProperties"))


def declared_members(schema, place=""):
    """The JSON pointers of all members that a schema file declares."""
    if isinstance(schema, dict):
        for name, one in schema.items():
            pointer = f"{place}/{name}"
            if place.endswith("/properties"):
                yield pointer
            yield from declared_members(one, pointer)
    elif isinstance(schema, list):
        for i, one in enumerate(schema):
            yield from declared_members(one, f"{place}/{i}")


def command_of(words):
    return " ".join(words.split()[: 2 if words.startswith("family") else 1])


@pytest.fixture(scope="module")
def reports(moec, export, tmp_path_factory):
    """reports[words] → (exit code, report), of all runs. The inputs are made first; then the runs share the cores."""
    inputs = Inputs(moec, export, tmp_path_factory.mktemp("reports"))

    def run(words):
        done = subprocess.run([MOEC, *words, "--json"], capture_output=True, text=True)
        # moec tokenize --prompts prints a line per prompt.
        text = done.stdout.splitlines()[0] if "--prompts" in words and "tokenize" in words else done.stdout
        return done.returncode, json.loads(text) if text.startswith("{") else done.stderr

    commands = [inputs.words(words) for words in RUNS]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(RUNS, pool.map(run, commands)))


@pytest.mark.parametrize("words", RUNS)
def test_report_matches_its_schema(words, reports):
    code, report = reports[words]
    assert isinstance(report, dict), report
    assert complaint(report, SCHEMAS[command_of(words)]) == ""
    assert report.get("ok", True) == (code == 0)


def test_every_command_has_a_schema_and_a_failing_run(reports):
    """The commands are those of the help, so that a new one without a schema fails."""
    listed = re.findall(r"^  ([a-z]+)  ", subprocess.run([MOEC, "--help"], capture_output=True, text=True).stdout, re.M)
    assert len(listed) > 20
    taking = []
    for name in listed:
        for words in ([name], [name, "check"]) if name == "family" else ([name],):
            text = subprocess.run([MOEC, *words, "--help-all"], capture_output=True, text=True).stdout
            if re.search(r"^  --json ", text, re.M):
                taking.append(" ".join(words))
    assert set(taking) == set(SCHEMAS)
    failing = {command_of(words) for words, (code, report) in reports.items() if code > 1 and len(report) == 2}
    assert failing == set(SCHEMAS)


def test_page_lists_the_schemas():
    page = (REPO / "frontends/cli/README.md").read_text()
    for path in SCHEMAS.values():
        assert f"{Path(path).name}`](" in page, path


def schema_files():
    tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.schema.json"], cwd=REPO,
                             capture_output=True, text=True, check=True).stdout.split()
    assert set(SCHEMAS.values()) <= set(tracked)
    return tracked


def test_every_member_is_seen(reports):
    walker = Walker()
    for words, (_, report) in reports.items():
        path = SCHEMAS[command_of(words)]
        found = REGISTRY.resolver().lookup(schema_uri(path))
        walker.walk(report, found.resolver, found.contents, (path, ""))
    missing = []
    for path in schema_files():
        schema = json.loads((REPO / path).read_text())
        missing += [f"{path}#{pointer}" for pointer in declared_members(schema)
                    if (path, pointer) not in walker.seen and pointer.split("/")[-1] not in UNSEEN.get(path, ())]
    assert not missing, "\n".join(missing)


def subschemas(schema):
    if isinstance(schema, dict):
        yield schema
        for name, one in schema.items():
            for inner in one.values() if name in ("properties", "$defs") else [one]:
                yield from subschemas(inner)
    elif isinstance(schema, list):
        for one in schema:
            yield from subschemas(one)


@pytest.mark.parametrize("path", schema_files())
def test_schema_is_strict(path):
    """Every object is closed, its members have descriptions, and the file is valid."""
    schema = json.loads((REPO / path).read_text())
    Draft202012Validator.check_schema(schema)
    extended = path.endswith(("manifest.schema.json", "placement.schema.json", "device_profile.schema.json"))
    for one in subschemas(schema):
        if one.get("type") == "object":
            closed = "additionalProperties" in one or (extended and one is schema["$defs"]["fields"])
            assert closed, one
        for name, member in one.get("properties", {}).items() if one.get("type") == "object" else ():
            assert "description" in member or "$ref" in member, name


def required_members(report, path):
    """The members that the form of the schema requires which the report matches."""
    schema = REGISTRY.resolver().lookup(schema_uri(path))
    for form in schema.contents["anyOf"]:
        found = schema.resolver.lookup(form["$ref"])
        if Draft202012Validator(found.contents, registry=REGISTRY, _resolver=found.resolver).is_valid(report):
            base = found.resolver.lookup(found.contents["$ref"]).contents if "$ref" in found.contents else {}
            return found.contents["required"] + base.get("required", [])


def mutations(report, required):
    """Copies of a report without one of the members, and with another one in the report or in one of its members."""
    for name in required:
        yield f"without {name}", {key: value for key, value in report.items() if key != name}
    yield "with another member", {**report, "surplus": 1}
    for name, value in report.items():
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict) and inner:
            changed = copy.deepcopy(report)
            (changed[name][0] if isinstance(value, list) else changed[name])["surplus"] = 1
            yield f"with another member of {name}", changed


@pytest.mark.parametrize("command", SCHEMAS)
def test_changed_report_does_not_match(command, reports):
    words = next(words for words in RUNS if command_of(words) == command)
    _, report = reports[words]
    count = 0
    for change, changed in mutations(report, required_members(report, SCHEMAS[command])):
        maps = ("stored", "bytes_by_dtype", "axes", "rules")
        if change.split()[-1] not in maps:
            assert complaint(changed, SCHEMAS[command]), change
            count += 1
    assert count >= 4
