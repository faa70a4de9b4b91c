#!/usr/bin/env python3
"""Overhead of moec route: the time of short requests, and the tokens/s of streams, through the gateway and directly.

    .venv/bin/python scripts/bench/route.py [SOURCE] [--rounds 5] [--requests 100] [--clients 4] [--tokens 200]

One node serves an export of SOURCE, by default of models/tinymoe, of which a token takes less than a millisecond, so that
the overhead is visible. Direct and routed requests alternate."""

import argparse
import http.client
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peers"))

from servers import Gateway, Server  # noqa: E402

MOEC = ROOT / "build/release/frontends/moec"
PROMPT = "def largest(values):\n    best = values[0]\n"


def post(server, body):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse().read()
    connection.close()
    return answer


def request_times(server, count):
    """Milliseconds of each of `count` short requests."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        post(server, {"prompt": PROMPT, "max_tokens": 1, "user": "a"})
        times.append(1000 * (time.perf_counter() - began))
    return times


def tokens_per_second(server, clients, tokens):
    """Tokens of streams that run at the same time."""
    def run(i):
        answer = post(server, {"prompt": f"{i} {PROMPT}", "max_tokens": tokens, "user": str(i), "stream": True})
        assert answer.endswith(b"data: [DONE]\n\n"), answer[-200:]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * tokens / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=pathlib.Path, default=ROOT / "models/tinymoe", metavar="SOURCE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run([MOEC, "export", options.source, "--out", out, "--tokens", "1,16", "--context", "512",
                        "--routing", "host", "--quiet"], check=True)
        node = Server(out)
        nodes = pathlib.Path(folder) / "nodes.json"
        nodes.write_text(json.dumps({"nodes": [{"name": "node", "url": f"http://127.0.0.1:{node.port}"}]}))
        gateway = Gateway(nodes)
        try:
            times, speeds = {node: [], gateway: []}, {node: [], gateway: []}
            for server in (node, gateway):  # warm up
                request_times(server, 10)
                tokens_per_second(server, options.clients, options.tokens)
            for _ in range(options.rounds):
                for server in (node, gateway):
                    times[server] += request_times(server, options.requests)
                    speeds[server].append(tokens_per_second(server, options.clients, options.tokens))
        finally:
            gateway.stop()
            node.stop()
    direct, routed = (statistics.median(times[server]) for server in (node, gateway))
    print(f"a request of one token: {direct:.2f} ms directly, {routed:.2f} ms routed, {routed - direct:+.2f} ms")
    direct, routed = (statistics.median(speeds[server]) for server in (node, gateway))
    print(f"{options.clients} streams: {direct:.0f} tokens/s directly, {routed:.0f} routed, {100 * (routed / direct - 1):+.1f} %")


if __name__ == "__main__":
    main()
