"""Servers of moec on free ports."""

import http.client
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


class Server:
    """moec serve on a free port."""

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text)

    def get(self, path):
        """Returns the status and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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
