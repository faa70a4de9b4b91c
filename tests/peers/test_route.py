"""moec route: a gateway that pins sessions to the nodes whose experts fit them, and continues the texts of lost nodes."""

import contextlib
import http.client
import http.server
import json
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import find_binary
from servers import Gateway, Server, make_nodes

PROMPTS = ["def largest(values):\n    best = values[0]\n", "Once upon a time there was a", "class Stack:\n    def push(",
           "import numpy as np\n\nx = ", "The weather in spring", "for i in range(10):\n    print("]


@pytest.fixture(scope="module")
def folder(moec, tmp_path_factory):
    """whole: an export; nodes/node0, nodes/node1: its halves; probe.json: their probe table."""
    folder = tmp_path_factory.mktemp("cluster")
    make_nodes(moec, folder, 512)
    moec("probe", folder / "whole", "--groups", folder / "place.json", "--prompts", "default", "--window", 64, "--write")
    return folder


class Cluster:
    """Servers of nodes and their gateway."""

    def __init__(self, folder, path, names=("node0", "node1"), flags=(), serve=(), **more):
        self.servers = {name: Server(folder / "nodes" / name[:5], *serve) for name in names}
        nodes = [{"name": name, "url": f"http://127.0.0.1:{server.port}", "group": name[:5], **more.get("node", {})}
                 for name, server in self.servers.items()]
        file = path / "nodes.json"
        file.write_text(json.dumps({"nodes": nodes, **more.get("file", {})}))
        self.gateway = Gateway(file, *flags)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        for server in self.servers.values():
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="module")
def cluster(folder, tmp_path_factory):
    with Cluster(folder, tmp_path_factory.mktemp("route")) as cluster:
        yield cluster


def ask(server, prompt, **fields):
    status, reply = server.post(json.dumps({"prompt": prompt, "max_tokens": 16, **fields}))
    assert status == 200, reply
    return reply["choices"][0]["text"]


def probe(server, prompt):
    status, reply = server.post(json.dumps({"prompt": prompt}), "/v1/probe")
    assert status == 200, reply
    return reply["kept"]


def node_of(gateway, request):
    """Returns the result of request() and the node that served it."""
    before = gateway.nodes()
    result = request()
    after = gateway.nodes()
    return result, [name for name in after if after[name]["requests"] > before[name]["requests"]][-1]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_new_session_gets_the_best_node(cluster, prompt):
    text, node = node_of(cluster.gateway, lambda: ask(cluster.gateway, prompt))
    kept = {name: probe(server, prompt) for name, server in cluster.servers.items()}
    assert node == max(kept, key=kept.get)
    assert text == ask(cluster.servers[node], prompt)
    assert any(f"{node} {kept[node]:.4f}" in line for line in cluster.gateway.lines), cluster.gateway.lines


@pytest.mark.parametrize("field", ["user", "prompt_cache_key"])
def test_keys_pin_sessions(cluster, field):
    nodes = {node_of(cluster.gateway, lambda prompt=prompt: ask(cluster.gateway, prompt, **{field: "alice " + field}))[1]
             for prompt in PROMPTS}
    assert len(nodes) == 1


def test_prefixes_pin_sessions(cluster):
    """A later turn goes to the node of the first one, although its own prompt may fit the other node."""
    for prompt in PROMPTS:
        first = [{"role": "user", "content": prompt}]
        reply = cluster.gateway.client.chat.completions.create(model="-", messages=first, max_tokens=8)
        probes = len(cluster.gateway.lines)
        turn = [*first, {"role": "assistant", "content": reply.choices[0].message.content},
                {"role": "user", "content": PROMPTS[1] * 3}]
        cluster.gateway.client.chat.completions.create(model="-", messages=turn, max_tokens=8)
        assert len(cluster.gateway.lines) == probes, "a known session is not probed"


def streamed(server, prompt, began=lambda: None, **fields):
    """Returns the text and the events of a stream. Calls began() when the first bytes arrive."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"prompt": prompt, "stream": True, **fields})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    first = response.read(1)
    began()
    data = (first + response.read()).decode().split("\n\n")
    events = [json.loads(line[6:]) for line in data if line.startswith("data: {")]
    assert "error" not in events[-1], events[-1]
    assert data[-2] == "data: [DONE]"
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["text"] for choice in choices), events


def test_streams_equal_those_of_the_node(cluster):
    for prompt in PROMPTS:
        (text, events), node = node_of(cluster.gateway, lambda prompt=prompt: streamed(cluster.gateway, prompt, max_tokens=40))
        assert text == ask(cluster.servers[node], prompt, max_tokens=40)
        assert events[-1]["choices"][0]["finish_reason"] == "length"


def test_errors_of_nodes_are_passed_on(cluster):
    for body, code in (({"prompt": "a", "max_tokens": -1}, "serve.bad_value"), ({"prompt": "a", "x": 1}, "serve.unknown_field"),
                       ({"prompt": "a", "x": 1, "stream": True}, "serve.unknown_field")):
        status, reply = cluster.gateway.post(json.dumps(body))
        assert status == 400 and reply["error"]["code"] == code


@pytest.mark.parametrize("body,code", [("", "serve.syntax"), ("[1]", "serve.syntax"), ("{}", "serve.missing_field"),
                                       ('{"prompt": ', "serve.syntax"), ('{"prompt": {"a": 1}, "user": 7, "metadata": 3, "n": "x"}', "serve.bad_value")])
def test_rejects_malformed_requests(cluster, body, code):
    status, reply = cluster.gateway.post(body)
    assert status == 400 and reply["error"]["code"] == code


def test_models_are_those_of_a_node(cluster):
    assert [model.id for model in cluster.gateway.client.models.list()] == ["node0"]


def test_table_chooses_by_category(folder, tmp_path):
    """By the name of the category, or by the routing of the first tokens, which one node computes."""
    table = json.loads((folder / "whole/probe.json").read_text())
    (tmp_path / "table.json").write_text(json.dumps(table))
    with Cluster(folder, tmp_path, file={"table": "table.json"}) as cluster:
        for category in table["categories"]:
            scores = category["log_probability"]
            best = table["groups"][scores.index(max(scores))]["name"]
            _, node = node_of(cluster.gateway, lambda name=category["name"]: ask(
                cluster.gateway, "text of " + name, metadata={"category": name}))
            assert node == best
            assert f"category {category['name']}: {best}" in cluster.gateway.lines[-1]
        ask(cluster.gateway, PROMPTS[0])
        assert "nearest category" in cluster.gateway.lines[-1]


class Streams:
    """Streams of several clients at the same time."""

    def __init__(self, gateway, prompts, tokens):
        self.results = [None] * len(prompts)
        self.began = []
        self.threads = [threading.Thread(target=self.run, args=(gateway, i, prompt, tokens))
                        for i, prompt in enumerate(prompts)]
        for thread in self.threads:
            thread.start()

    def run(self, gateway, i, prompt, tokens):
        self.results[i] = streamed(gateway, prompt, lambda: self.began.append(i), max_tokens=tokens,
                                   stream_options={"include_usage": True})

    def wait_for(self, count):
        """Waits until `count` streams have begun."""
        while len(self.began) < count:
            time.sleep(0.001)

    def finish(self):
        for thread in self.threads:
            thread.join()
        assert None not in self.results
        return self.results


def resumed_bytes(line):
    match = re.search(r"continues after (\d+) bytes", line)
    return match and int(match[1])


@pytest.mark.parametrize("names", [("node0a", "node0b"), ("node0", "node1")])
def test_streams_survive_a_killed_node(folder, tmp_path, names):
    """With replicas, the texts equal those of a node that was not killed. Otherwise, they continue with what the other
    node's model gives for the same prefix."""
    tokens = 300
    prompts = [f"# {i}\n{PROMPTS[i % len(PROMPTS)]}" for i in range(20)]
    with Cluster(folder, tmp_path, names, serve=["--sequences", "8"]) as cluster:
        streams = Streams(cluster.gateway, prompts, tokens)
        streams.wait_for(4)
        nodes = cluster.gateway.nodes()
        lost = max(nodes, key=lambda name: nodes[name]["running"])
        cluster.servers[lost].process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        results = streams.finish()
        print(f"all streams complete {time.monotonic() - began:.2f} s after the kill")
        other = cluster.servers[next(name for name in names if name != lost)]
        ends = [length for line in cluster.gateway.lines if (length := resumed_bytes(line)) is not None]
        assert any(ends), cluster.gateway.lines
        moved = 0
        for prompt, (text, events) in zip(prompts, results, strict=True):
            ids = [token for event in events for choice in event["choices"] for token in choice["token_ids"]]
            assert len(ids) == tokens == events[-1]["usage"]["completion_tokens"], "no token is lost or doubled"
            assert len({event["id"] for event in events}) == 1
            if text == ask(other, prompt, max_tokens=tokens):
                continue
            moved += 1
            assert any(ask(other, prompt + text[:length], max_tokens=tokens - length) == text[length:]
                       for length in set(ends) if length), (prompt, ends)
        assert names[0] == "node0" or moved == 0
        assert not cluster.gateway.nodes()[lost]["up"]


def test_nodes_without_token_ids_continue_by_text(folder, tmp_path):
    with Cluster(folder, tmp_path, ("node0a", "node0b"), node={"api": "openai"}) as cluster:
        streams = Streams(cluster.gateway, PROMPTS[:4], 400)
        streams.wait_for(2)
        nodes = cluster.gateway.nodes()
        lost = max(nodes, key=lambda name: nodes[name]["running"])
        cluster.servers[lost].process.send_signal(signal.SIGKILL)
        other = cluster.servers["node0b" if lost == "node0a" else "node0a"]
        for prompt, (text, _) in zip(PROMPTS, streams.finish(), strict=False):
            # An event of moec may have several tokens, so that the text may become longer than requested.
            assert text.startswith(ask(other, prompt, max_tokens=400))


class FakeNode:
    """A node that answers each POST request with the next of some bodies, and then closes the connection."""

    def __init__(self, bodies):
        self.bodies = list(bodies)
        self.requests = []  # bodies of requests for texts
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, b"{}")

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.startswith("/v1/probe"):
                    return self.reply(200, json.dumps({"kept": 1, "tokens": 1, "routing": [[1]]}).encode())
                node.requests.append(request)
                status, body, pause = node.bodies.pop(0)
                self.reply(status, body)
                time.sleep(pause)

            def reply(self, status, body):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextlib.contextmanager
def fake_before(folder, path, bodies, *flags):
    """A gateway whose first choice is a fake node, and a node that continues: yields (gateway, node, fake)."""
    node, fake = Server(folder / "nodes/node0"), FakeNode(bodies)
    file = path / "nodes.json"
    file.write_text(json.dumps({"nodes": [{"name": name, "url": f"http://127.0.0.1:{server.port}"}
                                          for name, server in (("fake", fake), ("node0", node))]}))
    gateway = Gateway(file, *flags)
    try:
        yield gateway, node, fake
    finally:
        gateway.stop()
        node.stop()
        fake.server.shutdown()


def event(**choice):
    return b"data: " + json.dumps({"id": "fake", "choices": [{"index": 0, "finish_reason": None, **choice}]}).encode() + b"\n\n"


@pytest.mark.parametrize("status,body,pause", [
    (200, b"", 0), (200, b"data: {", 0), (200, b"data: [1, 2]\n\n", 0), (200, b"data: {\"choices\": 3}\n\n", 0),
    (200, b"data: {\"id\": 3}\n\n", 0), (200, b"\0" * 100_000, 0), (200, b"x" * (2 << 20), 0),
    (200, b"data: {\"error\": {\"message\": \"no\"}}\n\n", 0), (503, b"{}", 0), (502, b"", 0), (200, b"", 3),
    (200, event(text=3), 0), (200, event(text="", token_ids=[]), 0), (200, event(text="", token_ids=["a"]), 0)])
def test_misbehaving_nodes_are_replaced(folder, tmp_path, status, body, pause):
    """By a node that answers the whole request, because the client has received no text."""
    with fake_before(folder, tmp_path, [(status, body, pause)], "--node-timeout", "1") as (gateway, node, fake):
        text, events = streamed(gateway, PROMPTS[0], max_tokens=16)
        assert text == ask(node, PROMPTS[0])
        assert not fake.bodies, "the fake node has the larger share of the routing weight"


def test_half_sent_texts_continue(folder, tmp_path):
    """Also after events that are cut in the middle, and after a token whose text is held back."""
    with fake_before(folder, tmp_path, []) as (gateway, node, fake):
        whole = streamed(node, PROMPTS[0], max_tokens=24)[1]
        ids = [token for one in whole for choice in one["choices"] for token in choice["token_ids"]]
        text = ask(node, PROMPTS[0], max_tokens=24)
        fake.bodies.append((200, event(text=text[:3], token_ids=ids[:3]) + event(text="", token_ids=ids[3:4])
                            + event(text=text[3:6], token_ids=ids[4:6])[:40], 0))
        found, events = streamed(gateway, PROMPTS[0], max_tokens=24)
        assert found == text
        assert [token for one in events for choice in one["choices"] for token in choice["token_ids"]] == ids
        assert {one["id"] for one in events} == {"fake"}


def test_streams_with_log_probabilities_continue(folder, tmp_path):
    with fake_before(folder, tmp_path, []) as (gateway, node, fake):
        events = streamed(node, PROMPTS[0], max_tokens=24, logprobs=1)[1]
        ids = [token for one in events for choice in one["choices"] for token in choice["token_ids"]]
        fake.bodies.append((200, event(text=ask(node, PROMPTS[0])[:6], token_ids=ids[:6]), 0))
        _, events = streamed(gateway, PROMPTS[0], max_tokens=24, logprobs=1)
        choices = [choice for one in events for choice in one["choices"]]
        assert [token for choice in choices for token in choice["token_ids"]] == ids
        offsets = [at for choice in choices[1:] for at in choice["logprobs"]["text_offset"]]
        assert offsets == list(range(6, 24)), "tokens of tinymoe are bytes"


@contextlib.contextmanager
def fake_cluster(path, bodies, apis):
    """A gateway of fake nodes, tried in this order: yields (gateway, fakes)."""
    fakes = [FakeNode([(200, body, 0)]) for body in bodies]
    file = path / "nodes.json"
    file.write_text(json.dumps({"nodes": [{"name": f"fake{i}", "url": f"http://127.0.0.1:{fake.port}", "api": api}
                                          for i, (fake, api) in enumerate(zip(fakes, apis, strict=True))]}))
    gateway = Gateway(file)
    try:
        yield gateway, fakes
    finally:
        gateway.stop()
        for fake in fakes:
            fake.server.shutdown()


def events_of(gateway, path, request):
    """The data of all events of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.request("POST", path, json.dumps({**request, "stream": True}), {"Content-Type": "application/json"})
    return [one[6:] for one in connection.getresponse().read().decode().split("\n\n")[:-1]]


DONE = b"data: [DONE]\n\n"


def test_streams_with_tool_calls_continue(tmp_path):
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    bodies = (event(delta={"content": "Hi"}, token_ids=[1]) + event(delta={"tool_calls": [call]}, token_ids=[2, 3]),
              event(delta={"role": "assistant"}, token_ids=[4], finish_reason="tool_calls") + DONE)
    request = {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}], "stream": True}
    with fake_cluster(tmp_path, bodies, ("moec", "moec")) as (gateway, fakes):
        *events, done = events_of(gateway, "/v1/chat/completions", request)
    choices = [json.loads(one)["choices"][0] for one in events]
    assert done == "[DONE]" and choices[-1]["finish_reason"] == "tool_calls"
    assert [token for choice in choices for token in choice["token_ids"]] == [1, 2, 3, 4]
    assert [fake.requests for fake in fakes] == [
        [request], [request | {"resume": {"token_ids": [1, 2, 3], "text_bytes": 2, "tool_calls": 1}}]]


def test_texts_continue_when_tokens_are_unknown(tmp_path):
    """After a node that sends no token ids, the next one gets the text, because only some of its tokens are known."""
    bodies = (event(text="ab", token_ids=[1, 2]), event(text="cd"), event(text="e", token_ids=[5], finish_reason="stop") + DONE)
    request = {"prompt": "x", "stream": True}
    with fake_cluster(tmp_path, bodies, ("moec", "moec", "moec")) as (gateway, fakes):
        *events, _ = events_of(gateway, "/v1/completions", request)
    assert "".join(json.loads(one)["choices"][0]["text"] for one in events) == "abcde"
    resume = {"token_ids": [1, 2], "text_bytes": 2, "tool_calls": 0}
    assert [fake.requests for fake in fakes] == [[request], [request | {"resume": resume}], [request | {"prompt": "xabcd"}]]


def test_log_probabilities_need_nodes_of_moec(tmp_path):
    """A server that cannot continue the text gets no request, and no text counts as moved."""
    bodies = (event(text="ab", token_ids=[1, 2]), event(text="c", finish_reason="stop") + DONE)
    with fake_cluster(tmp_path, bodies, ("moec", "openai")) as (gateway, fakes):
        last = events_of(gateway, "/v1/completions", {"prompt": "x", "logprobs": 1})[-1]
        assert json.loads(last)["error"]["code"] == "route.node_lost"
        assert fakes[1].requests == []
        assert all(node["failovers"] == 0 for node in gateway.nodes().values())


@pytest.mark.parametrize("fields", [{"n": 2}, {"prompt": ["a", "b"]}])
def test_other_streams_end_with_an_error(folder, tmp_path, fields):
    with fake_before(folder, tmp_path, [(200, event(text="abc", token_ids=[1]), 0)]) as (gateway, *_):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True, **fields}),
                           {"Content-Type": "application/json"})
        last = connection.getresponse().read().decode().split("\n\n")[-2]
        assert json.loads(last[6:])["error"]["code"] == "route.node_lost"


def test_drained_nodes_get_no_requests(folder, tmp_path):
    with Cluster(folder, tmp_path) as cluster:
        gateway = cluster.gateway
        _, first = node_of(gateway, lambda: ask(gateway, PROMPTS[0], user="a"))
        assert gateway.post("", f"/v1/nodes/{first}/drain")[0] == 200
        for prompt in PROMPTS:
            assert node_of(gateway, lambda prompt=prompt: ask(gateway, prompt, user="a"))[1] != first
        assert gateway.nodes()[first]["draining"]
        assert gateway.post("", f"/v1/nodes/{first}/undrain")[0] == 200
        assert not gateway.nodes()[first]["draining"]


def test_restarted_nodes_return(folder, tmp_path):
    with Cluster(folder, tmp_path, ("node0",)) as cluster:
        gateway, server = cluster.gateway, cluster.servers["node0"]
        server.process.kill()
        server.process.wait()
        status, reply = gateway.post(json.dumps({"prompt": "a"}))
        assert status == 503 and reply["error"]["code"] == "route.no_node"
        assert gateway.get("/health")[0] == 503
        cluster.servers["node0"] = Server(folder / "nodes/node0", port=server.port)
        deadline = time.monotonic() + 10
        while gateway.get("/health")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ask(gateway, "a")


def test_full_nodes_refuse_requests(folder, tmp_path):
    with Cluster(folder, tmp_path, node={"max_requests": 1}) as cluster:
        texts = [json.dumps({"prompt": prompt, "max_tokens": 450, "n": 16}) for prompt in "xy"]
        threads = [threading.Thread(target=cluster.gateway.post, args=(text,)) for text in texts]
        for i, thread in enumerate(threads):
            thread.start()
            while sum(node["running"] for node in cluster.gateway.nodes().values()) <= i:
                time.sleep(0.01)
        status, reply = cluster.gateway.post(json.dumps({"prompt": "b", "max_tokens": 2}))
        assert status == 429 and reply["error"]["code"] == "serve.busy"
        for thread in threads:
            thread.join()
        assert ask(cluster.gateway, "b")
        assert "moec_route_refused_total 1" in cluster.gateway.get("/metrics")[1]


def test_metrics_have_the_format_of_prometheus(cluster):
    ask(cluster.gateway, PROMPTS[0])
    status, text = cluster.gateway.get("/metrics")
    assert status == 200
    described = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.add(line.split()[2])
        elif not line.startswith("#"):
            match = re.fullmatch(r'(\w+)(\{node="node[01]"\})? (\d+)', line)
            assert match and match[1] in described, line
    assert re.search(r"moec_route_requests_total [1-9]", text)


def test_two_hundred_clients_and_slow_readers(cluster):
    """The memory of the gateway stays flat."""

    def memory():
        status = pathlib.Path(f"/proc/{cluster.gateway.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) >> 10

    slow = []
    for _ in range(8):
        client = socket.create_connection(("127.0.0.1", cluster.gateway.port))
        body = json.dumps({"prompt": "a", "max_tokens": 480, "stream": True})
        client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        slow.append(client)
    answers = []

    def garbage(i):
        try:
            answers.append(cluster.gateway.post(("{" * (i % 7)) + "\0" * i)[0])
        except (OSError, http.client.HTTPException):
            answers.append(503)

    before = memory()
    for _ in range(3):
        threads = [threading.Thread(target=garbage, args=(i,)) for i in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(answers) <= {400, 503} and 400 in answers
    assert memory() < before + 32
    for client in slow:
        client.close()
    assert ask(cluster.gateway, PROMPTS[0])


@pytest.mark.parametrize("text,code", [
    ("", "nodes.file"), ("{", "nodes.syntax"), ("{}", "nodes.missing_field"), ('{"nodes": []}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a", "url": "http://h:1", "x": 1}]}', "nodes.unknown_field"),
    ('{"nodes": [{"name": "a", "url": "https://h:1"}]}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a", "url": "http://h"}]}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a b", "url": "http://h:1"}]}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a", "url": "http://h:1"}, {"name": "a", "url": "http://h:2"}]}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a", "url": "http://h:1", "max_requests": 0}]}', "nodes.bad_value"),
    ('{"nodes": [{"name": "a", "url": "http://h:1"}], "table": "none.json"}', "probe_table.file"),
    ('{"nodes": [{"name": "a", "url": "http://h:1", "api_key_file": "none"}]}', "serve.api_key"),
])
def test_rejects_malformed_files_of_nodes(text, code, tmp_path):
    file = tmp_path / "nodes.json"
    file.write_text(text)
    done = subprocess.run([find_binary(), "route", "--nodes", file, "--port", "0"], capture_output=True, text=True)
    assert done.returncode == 2 and f"[{code}]" in done.stderr and tmp_path.name in done.stderr, done.stderr
