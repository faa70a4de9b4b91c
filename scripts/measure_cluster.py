#!/usr/bin/env python3
"""Measures sessions of a cluster: four `moec serve` in network namespaces, with limited links, and `moec route`.

    sudo .venv/bin/python scripts/measure_cluster.py [--moec BINARY] [--nodes 4] [--held 8] [--covered] [--rate 1gbit]

Two folds of the bundled suite: one half places the experts of tinymoe on the nodes (by its text categories, --held experts
per layer and node) and gives the probe table; each prompt of the other half becomes a session of the gateway. A session is
a hit if the node that served it is the best one for the tokens after the first 32; its regret is the log-probability, in
nats per token, that the choice loses against that node. Nodes of equal experts are equally good.

Then the nodes have halves of the experts and --on-miss peer. The log-probabilities of 16 tokens after each prompt are
compared with those of the whole export.

Needs Linux, root, and the programs ip and tc (iproute2)."""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/peers"))

from servers import Gateway, Server  # noqa: E402
from suite_splits import TINYMOE, WINDOW, Moec, random_half, read_suite, write_half  # noqa: E402

BRIDGE = "br-moec"
SUBNET = "10.77.0"
PORT = 8080


def flags_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=pathlib.Path, default=ROOT / "build/release/frontends/moec", help="the moec program")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--held", type=int, default=8, help="experts per layer and node (default: 8)")
    parser.add_argument("--covered", action="store_true", help="each expert is on some node")
    parser.add_argument("--rate", default="1gbit", help="of each link and direction (default: 1gbit)")
    return parser.parse_args()


def network(*words):
    subprocess.run([str(word) for word in words], check=True)


class Network:
    """A bridge with a namespace per node; node I has the address SUBNET.(I + 2)."""

    def __init__(self, nodes, rate):
        self.nodes = nodes
        network("ip", "link", "add", BRIDGE, "type", "bridge")
        network("ip", "addr", "add", f"{SUBNET}.1/24", "dev", BRIDGE)
        network("ip", "link", "set", BRIDGE, "up")
        for node in range(nodes):
            space, outer, inner = f"moec{node}", f"moec-v{node}", f"moec-e{node}"
            network("ip", "netns", "add", space)
            network("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
            network("ip", "link", "set", outer, "master", BRIDGE, "up")
            network("ip", "-n", space, "addr", "add", f"{self.address(node)}/24", "dev", inner)
            network("ip", "-n", space, "link", "set", inner, "up")
            network("ip", "-n", space, "link", "set", "lo", "up")
            limit = ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
            network("tc", "qdisc", "add", "dev", outer, *limit)
            network("tc", "-n", space, "qdisc", "add", "dev", inner, *limit)

    @staticmethod
    def address(node):
        return f"{SUBNET}.{node + 2}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in range(self.nodes):
            network("ip", "netns", "del", f"moec{node}")
        network("ip", "link", "del", BRIDGE)


class Node(Server):
    """moec serve in a namespace."""

    def __init__(self, moec, number, folder, *flags):
        self.host, self.port = Network.address(number), PORT
        command = ["ip", "netns", "exec", f"moec{number}", moec, "serve", folder, "--host", self.host, "--port", PORT, *flags]
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        assert "/v1" in said, said + self.process.stderr.read()


class Nodes:
    """A server per node folder, and the file of nodes."""

    def __init__(self, moec, folder, count, table=None, peers=False):
        nodes = [{"name": f"node{i}", "url": f"http://{Network.address(i)}:{PORT}"} for i in range(count)]
        self.file = folder / "servers.json"
        self.file.write_text(json.dumps({"nodes": nodes, **({"table": str(table)} if table else {})}))
        flags = ["--on-miss", "peer", "--peers", self.file] if peers else []
        self.servers = [Node(moec, i, folder / f"nodes/node{i}", *flags) for i in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()


def make_export(moec, folder, groups):
    """Makes folder/whole and folder/nodes."""
    folder.mkdir()
    shutil.copy(groups, folder / "place.json")
    moec.run("export", TINYMOE, "--out", folder / "whole", "--tokens", f"1,16,{WINDOW}", "--context", 2 * WINDOW,
             "--expert-groups", folder / "place.json", "-q")
    moec.run("split", folder / "whole", "--place", folder / "place.json", "--out", folder / "nodes",
             "--allow-uncovered")


def serving_node(gateway, prompt, user):
    """Sends a prompt as a new session; returns the number of the node that served it, and the seconds."""
    before = gateway.nodes()
    began = time.perf_counter()
    status, reply = gateway.post(json.dumps({"prompt": prompt, "max_tokens": 1, "user": user}))
    seconds = time.perf_counter() - began
    assert status == 200, reply
    after = gateway.nodes()
    return [i for i, name in enumerate(after) if after[name]["requests"] > before[name]["requests"]][-1], seconds


def measure_fold(moec, prompts, half, flags, folder):
    """Returns (hit, regret, seconds) of each prompt outside of the half."""
    seen, unseen = moec.scratch / "seen.jsonl", moec.scratch / "unseen.jsonl"
    write_half(prompts, half, seen)
    order = write_half(prompts, set(range(len(prompts))) - half, unseen)
    replicas = flags.nodes * flags.held
    make_export(moec, folder, moec.place(moec.analyze(seen), "categories", flags.nodes, replicas, flags.covered))
    moec.run("probe", folder / "whole", "--groups", folder / "place.json", "--prompts", seen, "--write")
    documents = json.loads(moec.run("probe", folder / "whole", "--prompts", unseen, "--json"))["documents"]
    outcomes = []
    with Nodes(flags.moec, folder, flags.nodes, folder / "whole/probe.json") as nodes:
        gateway = Gateway(nodes.file)
        while not all(node["up"] for node in gateway.nodes().values()):
            time.sleep(0.1)
        for index, document in zip(order, documents):
            node, seconds = serving_node(gateway, prompts[index]["text"], f"{folder.name} {index}")
            served = document["log_probability"]
            outcomes.append((served[node] == max(served), max(served) - served[node], seconds))
        gateway.stop()
    return outcomes


def answer(server, prompt):
    status, reply = server.post(json.dumps({"prompt": prompt, "max_tokens": 16, "logprobs": 5}))
    assert status == 200, reply
    return reply["choices"][0]["token_ids"], reply["choices"][0]["logprobs"]


def measure_peers(moec, prompts, flags, folder):
    """Prints the calls of nodes that have halves of the experts, and the prompts whose results differ."""
    make_export(moec, folder, moec.place(None, "contiguous", flags.nodes, flags.nodes * flags.held))
    whole = Server(folder / "whole")
    equal, direct, seconds = 0, 0.0, 0.0
    with Nodes(flags.moec, folder, flags.nodes, peers=True) as nodes:
        for index, prompt in enumerate(prompts):
            # Prompts with different first bytes: a cached prefix changes the chunks, and so their rounding.
            text = chr(ord("!") + index) + prompt["text"]
            began = time.perf_counter()
            wanted = answer(whole, text)
            middle = time.perf_counter()
            equal += answer(nodes.servers[index % flags.nodes], text) == wanted
            direct, seconds = direct + middle - began, seconds + time.perf_counter() - middle
        counts = [json.loads(server.get("/v1/gates")[1])["peers"] for server in nodes.servers]
    whole.stop()
    total = {name: sum(count[name] for count in counts) for name in ("choices", "missed", "calls", "seconds")}
    hosts = max(count["most_hosts"] for count in counts)
    print(f"--on-miss peer: {equal} of {len(prompts)} prompts equal bit for bit; {total['missed']} of {total['choices']} "
          f"choices (tokens x layers) with a missing expert, {total['calls']} calls of "
          f"{1e6 * total['seconds'] / total['calls']:.0f} us, at most {hosts} remote host per token and layer; "
          f"{seconds / direct:.2f} times the time of the whole export")


def main():
    flags = flags_of()
    prompts = read_suite()
    first = random_half(prompts, 0)
    with tempfile.TemporaryDirectory() as scratch, Network(flags.nodes, flags.rate):
        moec = Moec(flags.moec, scratch)
        outcomes = []
        for fold, half in enumerate((first, set(range(len(prompts))) - first)):
            outcomes += measure_fold(moec, prompts, half, flags, moec.scratch / f"fold{fold}")
        hits, regrets, seconds = zip(*outcomes)
        print(f"pinned by the gateway: {sum(hits)} of {len(hits)} sessions ({100 * statistics.fmean(hits):.0f} %) on their "
              f"best node, mean regret {statistics.fmean(regrets):.4f} nats per token, median "
              f"{1000 * statistics.median(seconds):.0f} ms for a new session with its probe")
        measure_peers(moec, prompts, flags, moec.scratch / "peers")


if __name__ == "__main__":
    main()
