"""POST /v1/reload: servers of nodes change their experts while texts run."""

import http.client
import json
import os
import shutil
import threading

import pytest

from goldens import REPO
from servers import Gateway, Server, make_two_splits

TINYMOE = REPO / "models/tinymoe"
PROMPT = "def largest(values):\n    best = values[0]\n"


@pytest.fixture(scope="module")
def folder(moec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reload")
    make_two_splits(moec, folder)
    return folder


class Current:
    """A server of node0 of the folder that the link `current` names."""

    def __init__(self, folder, path, *flags):
        self.link = path / "current"
        self.link.symlink_to(folder / "nodes")
        self.server = Server(self.link / "node0", *flags)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.stop() == 0

    def switch(self, target):
        self.link.unlink()
        self.link.symlink_to(target)

    def reload(self, body="{}"):
        return self.server.post(body, "/v1/reload")

    def experts(self):
        return json.loads(self.server.get("/v1/gates")[1])["experts"]


def complete(server, prompt=PROMPT, count=64):
    status, reply = server.post(json.dumps({"prompt": prompt, "max_tokens": count}))
    assert status == 200, reply
    return reply["choices"][0]["token_ids"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def expected(folder):
    """The answers of the old node and of the new one."""
    answers = {}
    for name in ("nodes", "fresh"):
        server = Server(folder / name / "node0")
        answers[name] = complete(server, count=400)[0]
        server.stop()
    assert answers["nodes"] != answers["fresh"]
    return answers


class Stream(threading.Thread):
    """A text in progress; `tokens` are those that have arrived."""

    def __init__(self, port, count):
        super().__init__()
        self.tokens, self.end, self.began = [], None, threading.Event()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.body = json.dumps({"prompt": PROMPT, "max_tokens": count, "stream": True})
        self.start()

    def run(self):
        self.connection.request("POST", "/v1/completions", self.body, {"Content-Type": "application/json"})
        for line in self.connection.getresponse():
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                assert "error" not in event, event
                for choice in event["choices"]:
                    self.tokens += choice.get("token_ids", [])
                    self.end = choice["finish_reason"] or self.end
            if len(self.tokens) >= 5:
                self.began.set()
        self.began.set()


def equal_tokens(a, b):
    return next((i for i, (one, other) in enumerate(zip(a, b)) if one != other), min(len(a), len(b)))


def test_texts_continue_across_a_reload(folder, expected, tmp_path):
    with Current(folder, tmp_path) as current:
        streams = [Stream(current.server.port, 400) for _ in range(3)]
        for stream in streams:
            assert stream.began.wait(60)
        current.switch(folder / "fresh")
        before = min(len(stream.tokens) for stream in streams)
        status, reply = current.reload()
        assert status == 200, reply
        assert reply == {"object": "reload", "model": "node0", "experts": "L0-3:0-5,8-9", "experts_before": "L0-3:0-7"}
        assert any(stream.is_alive() for stream in streams), "the reload interrupts texts in progress"
        # A new text does not reuse what the old experts computed.
        assert complete(current.server, count=24) == (expected["fresh"][:24], 0)
        for stream in streams:
            stream.join(120)
            assert len(stream.tokens) == 400 and stream.end == "length"
            assert equal_tokens(stream.tokens, expected["nodes"]) >= before
        assert complete(current.server, count=400)[0] == expected["fresh"]
        # Texts that the new experts computed are reused.
        assert complete(current.server, count=24)[1] > 0
        gates = json.loads(current.server.get("/v1/gates")[1])
        assert gates["experts"] == "L0-3:0-5,8-9" and gates["tokens"] > 1000, "the log continues"


def test_reload_equals_the_new_node(folder, expected, tmp_path):
    with Current(folder, tmp_path) as current:
        assert complete(current.server, count=100)[0] == expected["nodes"][:100]
        current.switch(folder / "fresh")
        assert complete(current.server, count=100)[0] == expected["nodes"][:100], "only a reload changes the folder"
        assert current.reload()[0] == 200
        assert complete(current.server, count=100) == (expected["fresh"][:100], 0)
        # An equal folder keeps the caches.
        assert current.reload()[0] == 200
        tokens, cached = complete(current.server, count=100)
        assert tokens == expected["fresh"][:100] and cached > 0
        # The whole export differs in its experts only.
        os.unlink(current.link)
        current.link.mkdir()
        (current.link / "node0").symlink_to(folder / "whole")
        assert current.reload()[1]["experts"] == ""


def test_failed_reload_keeps_the_old_folder(export, folder, expected, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "node0").symlink_to(export(TINYMOE, "--tokens", "1", "--context", 64, "--routing", "host",
                                        "--experts-per-shard", 1))
    broken = tmp_path / "broken"
    shutil.copytree(folder / "fresh/node0", broken / "node0")
    (broken / "node0/manifest.json").write_text("{")
    (broken / "node0/manifest.bin").unlink()
    with Current(folder, tmp_path) as current:
        for target, status, code in ((tmp_path / "nowhere", 500, None), (broken, 500, None), (other, 400, "serve.reload")):
            current.switch(target)
            found, reply = current.reload()
            assert found == status, reply
            assert code is None or reply["error"]["code"] == code
            assert current.experts() == "L0-3:0-7"
            assert complete(current.server)[0] == expected["nodes"][:64]
        current.switch(folder / "fresh")
        assert current.reload()[0] == 200
        assert complete(current.server)[0] == expected["fresh"][:64]


@pytest.mark.parametrize("body,code", [("", "serve.syntax"), ("[]", "serve.bad_value"), ("{", "serve.syntax"),
                                       ('{"folder": "/etc"}', "serve.unknown_field")])
def test_clients_choose_no_folder(folder, tmp_path, body, code):
    with Current(folder, tmp_path) as current:
        status, reply = current.reload(body)
        assert status == 400 and reply["error"]["code"] == code
        assert current.server.get("/v1/reload")[0] in (404, 405)


def test_reload_requires_the_key(folder, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    with Current(folder, tmp_path, "--api-key-file", key) as current:
        assert current.reload()[0] == 401


def test_slots_of_experts_are_reloaded(folder, expected, tmp_path):
    with Current(folder, tmp_path, "--capacity", "4") as current:
        assert complete(current.server)[0] == expected["nodes"][:64]
        current.switch(folder / "fresh")
        assert current.reload()[0] == 200
        assert complete(current.server)[0] == expected["fresh"][:64]
    (tmp_path / "state").mkdir()
    with Current(folder, tmp_path / "state", "--capacity", "4", "--state", tmp_path / "experts.state") as current:
        status, reply = current.reload()
        assert status == 400 and reply["error"]["code"] == "serve.no_reload"


def test_gateway_streams_continue(folder, expected, tmp_path):
    with Current(folder, tmp_path) as current:
        nodes = tmp_path / "nodes.json"
        nodes.write_text(json.dumps({"nodes": [{"name": "node0", "url": f"http://127.0.0.1:{current.server.port}"}]}))
        gateway = Gateway(nodes)
        try:
            stream = Stream(gateway.port, 400)
            assert stream.began.wait(60)
            current.switch(folder / "fresh")
            assert current.reload()[0] == 200
            stream.join(120)
            assert len(stream.tokens) == 400 and stream.end == "length"
        finally:
            gateway.stop()
