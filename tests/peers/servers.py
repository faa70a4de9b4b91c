"""Servers of moec on free ports."""

import http.client
import http.server
import json
import re
import subprocess
import sys
import threading

import openai

from conftest import find_binary
from goldens import REPO


def make_nodes(moec, folder, context):
    """Makes folder/whole, an export of tinymoe whose routers are separate shards, and folder/nodes/node0 and node1 with
    half of its experts each, as folder/place.json says."""
    moec("place", REPO / "models/tinymoe", "--nodes", 2, "--policy", "contiguous", "--out", folder / "place.json")
    moec("export", REPO / "models/tinymoe", "--out", folder / "whole", "--tokens", "1,16", "--context", context,
         "--expert-groups", folder / "place.json", "--quiet")
    moec("split", folder / "whole", "--place", folder / "place.json", "--out", folder / "nodes")


def write_groups(path, groups):
    """Writes a file of groups of experts, from their names and sets."""
    path.write_text(json.dumps({"groups": [{"name": name, "experts": experts} for name, experts in groups.items()]}))
    return path


def make_two_splits(moec, folder):
    """Makes folder/whole, an export of tinymoe with one expert per shard, and splits of it: nodes by old.json, and fresh
    by new.json, in which node0 has experts 8 and 9 instead of 6 and 7."""
    moec("export", REPO / "models/tinymoe", "--out", folder / "whole", "--tokens", "1,16", "--context", 512,
         "--routing", "host", "--experts-per-shard", 1, "--quiet")
    for name, out, groups in (("old.json", "nodes", {"node0": "*:0-7", "node1": "*:8-15"}),
                              ("new.json", "fresh", {"node0": "*:0-5,8-9", "node1": "*:6-7,10-15"})):
        moec("split", folder / "whole", "--place", write_groups(folder / name, groups), "--out", folder / out)


class Server:
    """moec serve on a free port."""

    host = "127.0.0.1"

    def __init__(self, folder, *flags, python=sys.executable, port=0):
        command = [find_binary(), "serve", folder, "--port", str(port), "--python", python, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/v1", said)
        assert match, said + self.process.stderr.read()
        self.port = int(match[1])
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="-", max_retries=0)

    def post(self, body, path="/v1/completions"):
        """Sends a request with arbitrary bytes and returns the status and the answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text)

    def get(self, path):
        """Returns the status and the body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, text.decode()

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=30)


class Gateway(Server):
    """moec route on a free port; `lines` are what --explain has printed so far."""

    def __init__(self, nodes, *flags):
        command = [find_binary(), "route", "--nodes", nodes, "--port", "0", "--explain", "--check-every", "0.2", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        while said and "/v1" not in said:
            said = self.process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/v1", said)
        assert match, said
        self.port = int(match[1])
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="-", max_retries=0)
        self.lines = []
        threading.Thread(target=self.read_lines, daemon=True).start()

    def read_lines(self):
        for line in self.process.stderr:
            self.lines.append(line.strip())

    def nodes(self):
        """Maps the name of each node to its state."""
        return {node["name"]: node for node in json.loads(self.get("/v1/nodes")[1])["nodes"]}


class FakeNode:
    """A server that answers requests to a node of tinymoe from canned gates. `replies` overrides the body of a path, or
    its (status, body)."""

    def __init__(self, experts="L0-3:0-7", tokens=100, **head):
        self.replies = {}
        self.head = {"object": "gates", "model": "node", "family": "qwen3_moe", "expert_count": 16, "top_k": 2,
                     "experts": experts, "layers": [0, 1, 2, 3], "tokens": tokens, **head}
        # Token t chooses experts 2t and 2t + 1.
        self.layer = {"object": "gates.layer", "tokens": tokens, "selections": [tokens / 8] * 16,
                      "mass": [tokens / 16] * 16,
                      "together": [tokens / 8 * (i % 2 == 0 and j == i + 1) for i in range(16) for j in range(i + 1, 16)]}
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                reply = node.replies.get(self.path) or json.dumps(node.layer if "?layer=" in self.path else node.head)
                status, body = reply if isinstance(reply, tuple) else (200, reply)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
