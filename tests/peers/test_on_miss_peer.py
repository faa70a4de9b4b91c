"""moec serve --on-miss peer: nodes that let other nodes compute the experts that they lack, with exact results."""

import concurrent.futures
import http.client
import json
import shutil
import socket
import subprocess

import pytest

from conftest import find_binary
from goldens import REPO
from servers import FakeNode, Server, make_nodes

PROMPTS = ["def largest(values):\n    best = values[0]\n", "Once upon a time there was a", "import numpy as np\n\nx = ",
           "The weather in spring", "for i in range(10):\n    print("]


def free_ports(count):
    """Returns ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_nodes(path, ports):
    """Writes a file of nodes: a name and a port each."""
    nodes = [{"name": name, "url": f"http://127.0.0.1:{port}"} for name, port in ports.items()]
    path.write_text(json.dumps({"nodes": nodes}))
    return path


class Cluster:
    """Servers of all nodes in a folder, as peers of one another, and of more exports."""

    def __init__(self, folder, file, more=(), flags=()):
        names = sorted(path.name for path in (folder / "nodes").iterdir() if path.is_dir())
        ports = dict(zip([*names, *more], free_ports(len(names) + len(more))))
        self.file = write_nodes(file, ports)
        self.servers = {name: Server(folder / "nodes" / name, "--on-miss", "peer", "--peers", self.file, *flags,
                                     port=ports[name]) for name in names}
        self.servers |= {name: Server(folder / name, *flags, port=ports[name]) for name in more}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.process.kill()
            server.process.wait()

    def peers(self, name):
        """Returns the counts of a node's calls."""
        return json.loads(self.servers[name].get("/v1/gates")[1])["peers"]


@pytest.fixture(scope="module")
def folder(moec, tmp_path_factory):
    """whole: an export; nodes: its halves."""
    folder = tmp_path_factory.mktemp("halves")
    make_nodes(moec, folder, 256)
    return folder


@pytest.fixture(scope="module")
def cluster(folder):
    with Cluster(folder, folder / "nodes.json") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def whole(folder):
    server = Server(folder / "whole")
    yield server
    server.stop()


def answer(server, prompt, tokens=24):
    """Returns the tokens of a text and their log probabilities."""
    status, reply = server.post(json.dumps({"prompt": prompt, "max_tokens": tokens, "logprobs": 5}))
    assert status == 200, reply
    choice = reply["choices"][0]
    return choice["token_ids"], choice["logprobs"]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("node", ["node0", "node1"])
def test_nodes_with_peers_are_exact(cluster, whole, node, prompt):
    assert answer(cluster.servers[node], prompt) == answer(whole, prompt)


def test_masked_nodes_differ(folder, whole):
    """Without peers, the comparison above fails."""
    masked = Server(folder / "nodes/node0")
    assert any(answer(masked, prompt) != answer(whole, prompt) for prompt in PROMPTS)
    masked.stop()


def test_calls_are_counted(cluster):
    before = cluster.peers("node0")
    answer(cluster.servers["node0"], "x = 1", 16)
    after = cluster.peers("node0")
    # Five tokens of the prompt and 15 generated ones run through four layers.
    assert after["choices"] - before["choices"] == 4 * (5 + 15)
    assert 0 < after["missed"] - before["missed"] < 4 * 20
    # The prompt is one chunk: one call per layer.
    assert after["calls"] - before["calls"] <= 4 * 16
    assert after["most_hosts"] == 1


def test_concurrent_nodes_do_not_wait_forever(cluster, whole):
    wanted = {prompt: answer(whole, prompt)[0] for prompt in PROMPTS}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = [(prompt, pool.submit(answer, server, prompt)) for _ in range(2) for prompt in PROMPTS
                for server in cluster.servers.values()]
        for prompt, job in jobs:
            assert job.result(timeout=120)[0] == wanted[prompt]


def test_gates_log_own_experts(cluster):
    gates = json.loads(cluster.servers["node0"].get("/v1/gates")[1])
    assert gates["experts"] == "L0-3:0-7"
    assert 0 < gates["kept"] < 1


def export_and_split(moec, path):
    """Makes path/whole and path/nodes of path/place.json."""
    moec("export", REPO / "models/tinymoe", "--out", path / "whole", "--tokens", "1,16", "--context", 256,
         "--expert-groups", path / "place.json", "--quiet")
    moec("split", path / "whole", "--place", path / "place.json", "--out", path / "nodes")


@pytest.fixture(scope="module")
def replicas(moec, tmp_path_factory):
    """Four nodes, each with half of the experts."""
    path = tmp_path_factory.mktemp("replicas")
    moec("place", REPO / "models/tinymoe", "--nodes", 4, "--replicas", 2, "--policy", "contiguous", "--out",
         path / "place.json")
    export_and_split(moec, path)
    return path


def test_one_host_computes_all_missing_experts(replicas):
    # Each server gets each prompt once, because prefixes in its caches change the chunks and their rounding.
    with Cluster(replicas, replicas / "nodes.json", ["whole"]) as cluster:
        whole = {prompt: answer(cluster.servers["whole"], prompt) for prompt in PROMPTS[:2]}
        for name in ["node0", "node1", "node2", "node3"]:
            for prompt in PROMPTS[:2]:
                assert answer(cluster.servers[name], prompt) == whole[prompt]
            assert cluster.peers(name)["most_hosts"] == 1


def test_another_peer_replaces_a_lost_one(replicas):
    with Cluster(replicas, replicas / "lost.json", ["whole"]) as cluster:
        whole = {prompt: answer(cluster.servers["whole"], prompt) for prompt in PROMPTS[:2]}
        assert answer(cluster.servers["node0"], PROMPTS[0]) == whole[PROMPTS[0]]
        for name in ["node1", "node2", "node3"]:
            cluster.servers[name].process.kill()
            cluster.servers[name].process.wait()
        assert answer(cluster.servers["node0"], PROMPTS[1]) == whole[PROMPTS[1]]
        # Without a peer, the text fails instead of being wrong.
        cluster.servers["whole"].process.kill()
        cluster.servers["whole"].process.wait()
        status, reply = cluster.servers["node0"].post(json.dumps({"prompt": PROMPTS[2], "max_tokens": 24}))
        assert status == 503 and reply["error"]["code"] == "peers.lost", reply


@pytest.fixture(scope="module")
def quarters(moec, tmp_path_factory):
    """Four nodes with a quarter of the experts each: no node has all that another one lacks."""
    path = tmp_path_factory.mktemp("quarters")
    moec("place", REPO / "models/tinymoe", "--nodes", 4, "--policy", "contiguous", "--out", path / "place.json")
    export_and_split(moec, path)
    return path


def test_one_peer_must_have_all_lacking_experts(quarters):
    with Cluster(quarters, quarters / "nodes.json") as cluster:
        status, reply = cluster.servers["node0"].post(json.dumps({"prompt": PROMPTS[0], "max_tokens": 24}))
        assert status == 500 and reply["error"]["code"] == "peers.bound", reply


def test_a_whole_export_serves_all_nodes(quarters):
    with Cluster(quarters, quarters / "all.json", ["whole"]) as cluster:
        whole = answer(cluster.servers["whole"], PROMPTS[0])
        for name in ["node0", "node1", "node2", "node3"]:
            assert answer(cluster.servers[name], PROMPTS[0]) == whole
            assert cluster.peers(name)["most_hosts"] == 1


def test_slots_of_a_peer_give_equal_results(quarters):
    ports = free_ports(1)
    peer = Server(quarters / "whole", "--capacity", "4", port=ports[0])
    node = Server(quarters / "nodes/node1", "--on-miss", "peer", "--peers",
                  write_nodes(quarters / "slots.json", {"whole": ports[0]}))
    reference = Server(quarters / "whole")
    for prompt in PROMPTS[:3]:
        assert answer(node, prompt) == answer(reference, prompt)
    for server in [node, peer, reference]:
        server.stop()


def test_runs_use_peers(moec, cluster, folder):
    flags = ["--prompt", PROMPTS[0], "--max-tokens", 16, "--json"]
    node = json.loads(moec("run", folder / "nodes/node0", *flags, "--on-miss", "peer", "--peers", cluster.file))
    assert node["tokens"] == json.loads(moec("run", folder / "whole", *flags))["tokens"]
    assert node["peers"]["missed"] > 0 and node["peers"]["most_hosts"] == 1


def test_other_numerics_are_refused(folder):
    ports = free_ports(1)
    peer = Server(folder / "nodes/node1", "--precision", "f16", port=ports[0])
    node = Server(folder / "nodes/node0", "--on-miss", "peer", "--peers",
                  write_nodes(folder / "f16.json", {"node1": ports[0]}))
    status, reply = node.post(json.dumps({"prompt": PROMPTS[0], "max_tokens": 24}))
    assert status == 503 and "cpu f16" in reply["error"]["message"], reply
    node.stop()
    peer.stop()


@pytest.mark.parametrize("answer, code", [
    ('{"columns": 1, "count": 1}\n\0\0\0\0', "peers.bad_answer"), ('{"columns": 1, "count": 2}\n' + 8 * "\0", "peers.lost"),
    ('{"columns": 1, "count": 1}\n', "peers.lost"), ("{}\n", "peers.lost"), ("", "peers.lost")])
def test_bad_answers_are_refused(folder, tmp_path, answer, code):
    peer = FakeNode(experts="L0-3:8-15")
    peer.replies["/v1/experts"] = answer
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [{"name": "fake", "url": peer.url}]}))
    flags = ["--on-miss", "peer", "--peers", tmp_path / "nodes.json"]
    assert code_of("run", folder / "nodes/node0", "--prompt-tokens", "100", "--max-tokens", 64, *flags) == code


def test_masked_experts_need_no_peer(moec, folder, tmp_path):
    """The graphs mask experts 12 to 15, which no node can provide."""
    moec("export", REPO / "models/tinymoe", "--out", tmp_path / "whole", "--tokens", "1,16", "--context", 64, "--expert-mask",
         "*:0-11", "--expert-groups", folder / "place.json", "--quiet")
    moec("split", tmp_path / "whole", "--place", folder / "place.json", "--out", tmp_path / "nodes")
    with Cluster(tmp_path, tmp_path / "nodes.json", ["whole"]) as cluster:
        wanted = answer(cluster.servers["whole"], PROMPTS[0])
    with Cluster(tmp_path, tmp_path / "nodes.json") as cluster:
        for name in ["node0", "node1"]:
            assert answer(cluster.servers[name], PROMPTS[0]) == wanted


BAD_CALLS = [b"", b"\n", b"{}\n", b"[1]\n", b'{"layer": 0', b'{"layer": 0, "numerics": "cpu f32 ", "shards": [], "inputs": []}\n',
             b'{"layer": 0, "numerics": "cpu f32 ", "shards": [{"name": "x", "digest": ""}], "inputs": '
             b'[{"port": "x", "columns": 1, "count": 1}]}\n\0\0\0\0',
             b'{"layer": 0, "numerics": "cpu f32 ", "shards": [], "inputs": [{"port": "x", "columns": 9007199254740992, '
             b'"count": 9007199254740992}]}\n', b'{"layer": -1}\n', b"\xff\xfe\n"]


@pytest.mark.parametrize("body", BAD_CALLS)
def test_bad_calls_are_refused(cluster, body):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.servers["node0"].port, timeout=30)
    connection.request("POST", "/v1/experts", body, {"Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    assert response.status == 400 and json.loads(response.read())["error"]["code"] == "peers.bad_call"


def test_calls_need_their_content_type(cluster):
    assert cluster.servers["node0"].post("{}", "/v1/experts")[0] == 415


def code_of(*arguments):
    """Runs moec and returns the code of its error."""
    done = subprocess.run([find_binary(), *map(str, arguments), "--json"], capture_output=True, text=True)
    assert done.returncode == 2, done
    return json.loads(done.stdout)["diagnostics"][0]["code"]


@pytest.mark.parametrize("flags, code", [
    (["--on-miss", "peer"], "run.flags"), (["--peers", "nodes.json"], "run.flags"),
    (["--on-miss", "peer", "--peers", "absent.json"], "nodes.file"),
    (["--on-miss", "peer", "--peers", "nodes.json", "--capacity", "4"], "run.flags")])
def test_flags_are_checked(folder, flags, code):
    flags = [str(folder / flag) if flag.endswith(".json") else flag for flag in flags]
    assert code_of("run", folder / "nodes/node0", "--prompt", "x", *flags) == code


def test_whole_exports_need_no_peers(cluster, folder):
    flags = ["--prompt", "x", "--on-miss", "peer", "--peers", cluster.file]
    assert code_of("run", folder / "whole", *flags) == "session.no_whole"


def test_nodes_of_another_split_are_refused(cluster, folder, tmp_path):
    node = tmp_path / "node0"
    shutil.copytree(folder / "nodes/node0", node)
    shutil.rmtree(node / "whole")
    assert code_of("run", node, "--prompt", "x", "--on-miss", "peer", "--peers", cluster.file) == "session.no_whole"
