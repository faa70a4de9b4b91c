"""moec place --from-nodes: a placement from what the routers of running nodes wanted."""

import json
import socket
import subprocess

import numpy as np
import pytest

from conftest import find_binary
from goldens import REPO
from servers import FakeNode, Server, make_nodes

PROMPTS = ["def largest(values):\n    best = values[0]\n", "Once upon a time there was a", "class Stack:\n    def push("]
TINYMOE = REPO / "models/tinymoe"


def place(*flags):
    """Returns the exit code and the report."""
    done = subprocess.run([find_binary(), "place", TINYMOE, *map(str, flags), "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def placed(*flags):
    code, report = place(*flags)
    assert code == 0, report
    return report


def refusal(*flags):
    """Returns the code of the error and its message with the place."""
    code, report = place(*flags)
    assert code != 0, report
    error = report["diagnostics"][0]
    return error["code"], json.dumps(error)


def sets_of(text):
    """The pairs of layer and expert of a set such as "L0-1:0-3,7"."""
    pairs = set()
    for item in filter(None, text.split(";")):
        layers, experts = item[1:].split(":")
        numbers = [range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1) for part in (layers, *experts.split(","))]
        pairs |= {(layer, expert) for layer in numbers[0] for run in numbers[1:] for expert in run}
    return pairs


@pytest.fixture(scope="module")
def folder(moec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    make_nodes(moec, folder, 256)
    return folder


@pytest.fixture(scope="module")
def servers(folder):
    """node0 has served two texts, node1 a longer one."""
    servers = [Server(folder / "nodes" / name) for name in ("node0", "node1")]
    for server, prompts, count in ((servers[0], PROMPTS[:2], 24), (servers[1], PROMPTS[2:], 100)):
        for prompt in prompts:
            status, reply = server.post(json.dumps({"prompt": prompt, "max_tokens": count}))
            assert status == 200, reply
    yield servers
    for server in servers:
        assert server.stop() == 0


def url(server):
    return f"http://127.0.0.1:{server.port}"


def gates_of(server, query=""):
    status, text = server.get("/v1/gates" + query)
    assert status == 200, text
    return json.loads(text)


def test_report_compares_with_the_nodes(servers, tmp_path):
    gates = [gates_of(server) for server in servers]
    out = tmp_path / "new.json"
    report = placed("--from-nodes", ",".join(map(url, servers)), "--out", out)
    change = report["change"]
    assert json.loads(out.read_text())["groups"] == report["groups"] and "change" not in json.loads(out.read_text())
    assert [node["experts"] for node in report["nodes"]] == [8, 8], "as many copies as now"
    tokens = [own["tokens"] for own in gates]
    assert change["tokens"] == pytest.approx(sum(tokens), abs=0.01)
    assert change["kept_before"] == pytest.approx(np.average([own["kept"] for own in gates], weights=tokens), abs=1e-3)
    after = []
    for node, own, group in zip(change["nodes"], gates, report["groups"]):
        old, new = sets_of(own["experts"]), sets_of(group["experts"])
        assert sets_of(node["gained"]) == new - old and sets_of(node["lost"]) == old - new
        # By layer, and of the other set, too.
        after.append(np.array([[sum(own["routing"][layer][expert] for expert in range(16) if ((layer, expert) in new) == has)
                                for layer in range(4)] for has in (True, False)]))
        assert node["kept_after"] == pytest.approx(after[-1][0].mean(), abs=2e-3)
    kept, exchanged = np.average(after, axis=0, weights=tokens)
    assert change["kept_after"] == pytest.approx(kept.mean(), abs=2e-3)
    assert np.all(kept >= exchanged - 2e-3), "each set is on the node whose texts want it"
    gain = change["kept_after"] > change["kept_before"]
    assert [note["code"] for note in report["diagnostics"]] == ([] if gain else ["place.no_gain"])
    # Each expert of tinymoe has the same bytes.
    gained = [len(sets_of(node["gained"])) for node in change["nodes"]]
    assert sum(gained) > 0 and len({node["bytes"] / count for node, count in zip(change["nodes"], gained) if count}) == 1
    assert change["bytes"] == sum(node["bytes"] for node in change["nodes"])


def test_counts_are_those_of_a_profile(servers, tmp_path):
    """A profile file with the same numbers leads to the same sets, up to their order."""
    counts = [[gates_of(server, f"?layer={layer}") for layer in range(4)] for server in servers]

    def total(layer, name, scale=1000):
        return [round(scale * value) for value in np.sum([own[layer][name] for own in counts], axis=0)]

    names = ["a", "b"]
    # More tokens than a rounded sum of selections needs.
    layers = [{"layer": layer, "tokens": 16 + round(1000 * sum(own[layer]["tokens"] for own in counts)),
               "selections": total(layer, "selections"), "together": total(layer, "together"),
               "mass": [1000 * float(value) for value in np.sum([own[layer]["mass"] for own in counts], axis=0)],
               "categories": [{"name": name, "selections": [round(1000 * v) for v in own[layer]["selections"]]}
                              for name, own in zip(names, counts)]} for layer in range(4)]
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"format": "moec.expert_profile", "version": 1, "model": "qwen3_moe", "checkpoint": "",
                                "source": "nodes", "text": "", "experts": 16, "top_k": 2, "layers": layers,
                                "categories": [{"name": name, "documents": 0, "tokens": 0} for name in names]}))
    for policy in ("packed", "balanced", "contiguous"):
        reports = [placed(*source, "--nodes", 2, "--policy", policy)
                   for source in (("--from-nodes", ",".join(map(url, servers))), ("--profile", file))]
        theirs, ours = ([{frozenset(pair for pair in sets_of(group["experts"]) if pair[0] == layer)
                          for group in report["groups"]} for layer in range(4)] for report in reports)
        assert theirs == ours


def test_nodes_file_names_replicas_and_new_nodes(servers, tmp_path):
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"nodes": [{"name": "x", "url": url(servers[1]), "group": "high"},
                                          {"name": "y", "url": url(servers[0]), "group": "low"}]}))
    change = placed("--from-nodes", file, "--nodes", 3)["change"]
    assert [node["servers"] for node in change["nodes"]] == [["x"], ["y"], []]
    assert change["nodes"][2]["lost"] == "" and change["nodes"][2]["tokens"] == 0
    file.write_text(json.dumps({"nodes": [{"name": "x", "url": url(servers[1]), "group": "one"},
                                          {"name": "y", "url": url(servers[0]), "group": "one"}]}))
    code, message = refusal("--from-nodes", file)
    assert code == "gates.replicas" and "x" in message and "y" in message


def test_table_states_gains_and_shares(servers):
    done = subprocess.run([find_binary(), "place", TINYMOE, "--from-nodes", ",".join(map(url, servers))],
                          capture_output=True, text=True, check=True)
    assert "kept now" in done.stdout and "of their routing mass now" in done.stdout


def test_requires_the_key_of_a_server(folder, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    server = Server(folder / "nodes/node0", "--api-key-file", key)
    file = tmp_path / "nodes.json"
    try:
        code, message = refusal("--from-nodes", url(server))
        assert code == "gates.status" and "api_key_file" in message
        file.write_text(json.dumps({"nodes": [{"name": "n", "url": url(server), "api_key_file": "key"}]}))
        assert refusal("--from-nodes", file)[0] == "gates.no_tokens"
    finally:
        server.stop()


def test_nodes_of_the_same_experts_share_a_placement():
    """All pairs of experts stay together, as the canned tokens chose them."""
    nodes = [FakeNode("L0-3:0-7", 100), FakeNode("L0-3:8-15", 300)]
    report = placed("--from-nodes", ",".join(node.url for node in nodes))
    assert report["change"]["tokens"] == 400
    assert report["change"]["kept_before"] == report["change"]["kept_after"] == 0.5
    for group in report["groups"]:
        own = sets_of(group["experts"])
        assert {(layer, expert ^ 1) for layer, expert in own} == own


def test_copies_of_the_nodes_remain():
    nodes = [FakeNode("L0-3:0-11"), FakeNode("L0-3:4-15")]
    assert [node["experts"] for node in placed("--from-nodes", ",".join(node.url for node in nodes))["nodes"]] == [12, 12]
    # An empty set means all experts.
    assert [node["experts"] for node in placed("--from-nodes", FakeNode("").url)["nodes"]] == [16]


@pytest.mark.parametrize("change,code", [
    ({"family": "mixtral"}, "gates.model"),
    ({"top_k": 3}, "gates.model"),
    ({"expert_count": 8}, "gates.model"),
    ({"layers": [0, 1, 2]}, "gates.model"),
    ({"experts": "L9:1"}, "experts.layer"),
    ({"experts": "L0:16"}, "experts.expert"),
    ({"family": None}, "gates.bad_value"),
])
def test_rejects_other_models(change, code):
    node = FakeNode(**change)
    found, message = refusal("--from-nodes", node.url)
    assert found == code and node.url in message, message


@pytest.mark.parametrize("path,reply,code", [
    ("/v1/gates", "{", "gates.syntax"),
    ("/v1/gates", "[]", "gates.bad_value"),
    ("/v1/gates", "{}", "gates.missing_field"),
    ("/v1/gates", (404, "{}"), "gates.status"),
    ("/v1/gates", (500, "oops"), "gates.status"),
    ("/v1/gates?layer=2", (404, "{}"), "gates.status"),
    ("/v1/gates?layer=2", {"tokens": None}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"tokens": -1}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"tokens": 1e12}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"mass": [1] * 15}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"mass": [None] * 16}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"selections": [-1] * 16}, "gates.bad_value"),
    ("/v1/gates?layer=2", {"together": [1]}, "gates.bad_value"),
    ("/v1/gates?layer=2", '{"tokens": 1e999}', "gates.syntax"),
])
def test_rejects_damaged_replies(path, reply, code):
    node = FakeNode()
    node.replies[path] = json.dumps({**node.layer, **reply}) if isinstance(reply, dict) else reply
    found, message = refusal("--from-nodes", f"{FakeNode().url},{node.url}")
    assert found == code and node.url in message, message


def test_rejects_impossible_requests(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
        code, message = refusal("--from-nodes", closed)
    assert code == "gates.unreachable" and closed in message
    assert refusal("--from-nodes", FakeNode(tokens=0).url)[0] == "gates.no_tokens"
    one, two = FakeNode().url, FakeNode("L0-3:8-15").url
    assert refusal("--from-nodes", f"{one},{one}")[0] == "nodes.list"
    assert refusal("--from-nodes", "http://x/v1")[0] == "nodes.list"
    assert refusal("--from-nodes", "/nowhere")[0] == "nodes.file"
    assert refusal("--from-nodes", f"{one},{two}", "--nodes", 1)[0] == "place.servers"
    assert refusal("--from-nodes", f"{one},{two}", "--nodes", 4, "--stages", 2)[0] == "place.servers"
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"nodes": [{"name": "n", "url": one, "api": "openai"}]}))
    assert refusal("--from-nodes", file)[0] == "gates.api"
    done = subprocess.run([find_binary(), "place", TINYMOE, "--from-nodes", one, "--profile", "x"], capture_output=True,
                          text=True)
    assert done.returncode != 0 and "excludes" in done.stderr
