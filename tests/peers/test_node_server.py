"""What moec serve adds for gateways: continued texts, probes of prompts, and what the routers of a node wanted."""

import json

import numpy as np
import pytest

from goldens import REPO
from servers import Server, make_nodes

PROMPT = "def largest(values):\n    best = values[0]\n"


@pytest.fixture(scope="module")
def whole(moec, tmp_path_factory):
    """An export whose routers are separate shards, cut by the experts of two nodes."""
    folder = tmp_path_factory.mktemp("nodes")
    make_nodes(moec, folder, 256)
    return folder


@pytest.fixture(scope="module")
def server(whole):
    server = Server(whole / "whole")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def node(whole):
    server = Server(whole / "nodes/node0")
    yield server
    assert server.stop() == 0


def complete(server, **fields):
    status, reply = server.post(json.dumps({"prompt": PROMPT, "max_tokens": 24, **fields}))
    assert status == 200, reply
    return reply


@pytest.mark.parametrize("path,prompt", [("/v1/completions", {"prompt": PROMPT + "é"}),
                                         ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]})])
def test_resumed_texts_equal_uninterrupted_ones(server, path, prompt):
    def ask(**fields):
        status, reply = server.post(json.dumps({**prompt, "max_tokens": 24, **fields}), path)
        assert status == 200, reply
        choice = reply["choices"][0]
        return choice.get("text", choice.get("message", {}).get("content")), choice, reply["usage"]

    text, choice, usage = ask()
    tokens = choice["token_ids"]
    for count in (1, 5, 23):
        # A token of tinymoe is a byte, and this text has only characters of one byte.
        rest, resumed, counts = ask(resume={"token_ids": tokens[:count], "text_bytes": count - 1})
        assert text[:count - 1] + rest == text
        assert tokens[:count] + resumed["token_ids"] == tokens
        assert resumed["finish_reason"] == choice["finish_reason"]
        assert (counts["prompt_tokens"], counts["completion_tokens"]) == (usage["prompt_tokens"],
                                                                          usage["completion_tokens"])


def test_resumed_log_probabilities_equal_uninterrupted_ones(server):
    whole = complete(server, logprobs=2)["choices"][0]
    tokens = whole["token_ids"]
    rest = complete(server, logprobs=2, resume={"token_ids": tokens[:9], "text_bytes": 8})["choices"][0]
    assert tokens[9:] == rest["token_ids"]
    assert rest["logprobs"] == {name: values[9:] for name, values in whole["logprobs"].items()}


def test_stop_texts_span_the_interruption(server):
    text = complete(server)["choices"][0]
    stop = text["text"][8:12]
    cut = complete(server, stop=stop)["choices"][0]
    resumed = complete(server, stop=stop, resume={"token_ids": text["token_ids"][:10], "text_bytes": 8})["choices"][0]
    assert cut["text"] == text["text"][:8] + resumed["text"]
    assert resumed["finish_reason"] == "stop"


@pytest.mark.parametrize("fields,cause", [
    ({"resume": {"token_ids": [1] * 24, "text_bytes": 0}}, "has 24 tokens"),
    ({"resume": {"token_ids": [1, 2], "text_bytes": 3}}, "text_bytes"),
    ({"resume": {"token_ids": [999999], "text_bytes": 0}}, "resume"),
    ({"resume": {"token_ids": [1]}}, "text_bytes"),
    ({"resume": {"token_ids": [1], "text_bytes": 0}, "n": 2}, "one text"),
    ({"resume": {"token_ids": [1], "text_bytes": 0, "tool_calls": 1}}, "tool_calls of resume is 1"),
    ({"resume": {"token_ids": [1], "text_bytes": 0}, "prompt": ["a", "b"]}, "one text"),
])
def test_rejects_impossible_resumptions(server, fields, cause):
    status, reply = server.post(json.dumps({"prompt": PROMPT, "max_tokens": 24, **fields}))
    assert status == 400 and cause in reply["error"]["message"], reply


def probe(server, path="/v1/probe", **fields):
    status, reply = server.post(json.dumps({"prompt": PROMPT, **fields}), path)
    assert status == 200, reply
    return reply


def test_probe_equals_moec_probe(server, whole, moec):
    """A server of the whole model sees the routing weights that moec probe measures."""
    report = json.loads(moec("probe", whole / "whole", "--groups", whole / "place.json", "--prompt", PROMPT, "--json"))
    reply = probe(server)
    assert reply["tokens"] == 32 and reply["kept"] == pytest.approx(1)
    assert np.allclose(reply["routing"], report["documents"][0]["routing"], atol=1e-5)


def test_node_reports_what_its_routers_want(server, node):
    """Also the experts that the node lacks. The first layer sees the same hidden states as that of the whole model."""
    ours, theirs = probe(node), probe(server)
    assert np.allclose(ours["routing"][0], theirs["routing"][0], atol=1e-5)
    half = len(ours["routing"][0]) // 2
    assert np.sum(np.array(ours["routing"])[:, half:]) > 0
    assert ours["kept"] == pytest.approx(np.array(ours["routing"])[:, :half].sum(axis=1).mean())


def test_probe_leaves_texts_unchanged(node):
    text = complete(node)["choices"][0]["text"]
    assert probe(node) == probe(node)
    assert complete(node)["choices"][0]["text"] == text


def test_probe_accepts_chats_and_lengths(node):
    chat = [{"role": "user", "content": PROMPT}]
    status, reply = node.post(json.dumps({"messages": chat, "stream": True}), "/v1/probe?tokens=16")
    assert status == 200 and reply["tokens"] == 16
    for wrong in ("0", "x"):
        status, reply = node.post(json.dumps({"prompt": PROMPT}), f"/v1/probe?tokens={wrong}")
        assert status == 400 and reply["error"]["code"] == "serve.bad_value"


def test_gates_count_what_texts_wanted(whole):
    server = Server(whole / "nodes/node1")
    try:
        before = json.loads(server.get("/v1/gates")[1])
        assert before["tokens"] == 0 and before["kept"] is None
        probe(server)  # a probe is not a text
        assert json.loads(server.get("/v1/gates")[1]) == before
        complete(server, max_tokens=8)
        gates = json.loads(server.get("/v1/gates")[1])
        # The last token is not run. A token is a byte.
        assert gates["tokens"] == pytest.approx(len(PROMPT) + 8 - 1, rel=0.01)
        assert 0 < gates["kept"] < 1 and np.allclose(np.sum(gates["routing"], axis=1), 1)
        assert gates["experts"].startswith("L0")
    finally:
        server.stop()


def test_gates_of_a_layer_count_choices_and_pairs(node):
    complete(node)
    gates = json.loads(node.get("/v1/gates")[1])
    assert (gates["family"], gates["expert_count"], gates["top_k"]) == ("qwen3_moe", 16, 2)
    for layer in range(4):
        counts = json.loads(node.get(f"/v1/gates?layer={layer}")[1])
        tokens, selections = counts["tokens"], np.array(counts["selections"])
        assert tokens == pytest.approx(gates["tokens"], abs=1e-3)
        assert selections.sum() == pytest.approx(2 * tokens, abs=0.1) and selections.max() <= tokens
        # Two experts per token form one pair.
        assert len(counts["together"]) == 120 and np.sum(counts["together"]) == pytest.approx(tokens, abs=0.1)
        assert np.allclose(np.array(counts["mass"]) / tokens, gates["routing"][layer], atol=1e-3)
    for wrong in ("4", "-1", "x", ""):
        status, text = node.get(f"/v1/gates?layer={wrong}")
        assert status == 400 and json.loads(text)["error"]["code"] == "serve.bad_value"


def test_whole_models_log_no_gates(server):
    complete(server)
    assert set(json.loads(server.get("/v1/gates?layer=0")[1])["mass"]) == {0}
    gates = json.loads(server.get("/v1/gates")[1])
    assert gates["tokens"] == 0 and gates["routing"] is None


def test_probe_requires_separate_routers(export):
    server = Server(export(REPO / "models/tinymoe", "--target", "onnx", "--tokens", "1"))
    try:
        status, reply = server.post(json.dumps({"prompt": PROMPT}), "/v1/probe")
        assert status == 400 and reply["error"]["code"] == "serve.no_routing"
    finally:
        server.stop()
