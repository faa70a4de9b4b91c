"""moec serve with the openai client and with misbehaving clients."""

import gzip
import http.client
import json
import pathlib
import re
import select
import shutil
import socket
import string
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import openai
import pytest
import tokenizers

from conftest import find_binary
from goldens import REPO
from servers import Server


@pytest.fixture(scope="module")
def folder(export):
    return export(REPO / "models/tinymoe", "--target", "onnx", "--dtype", "f32", "--tokens", "1,16", "--context", "256")


LONG = 512


@pytest.fixture(scope="module")
def long_folder(export):
    return export(REPO / "models/tinymoe", "--target", "onnx", "--dtype", "f32", "--tokens", "1,16", "--context", str(LONG))


@pytest.fixture(scope="module")
def server(folder):
    server = Server(folder)
    yield server
    assert server.stop() == 0


def run(folder, prompt, tokens):
    out = subprocess.run([find_binary(), "run", folder, "--prompt", prompt, "--max-tokens", str(tokens), "--json"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)["text"]


def test_texts_equal_moec_run(server, folder):
    answer = server.client.completions.create(model="tinymoe", prompt="def main(", max_tokens=24)
    assert answer.choices[0].text == run(folder, "def main(", 24)
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 24)


def test_streams_equal_plain_answers(server):
    whole = server.client.completions.create(model="x", prompt="import ", max_tokens=30).choices[0].text
    pieces = list(server.client.completions.create(model="x", prompt="import ", max_tokens=30, stream=True,
                                                   stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == whole
    assert len(pieces) > 5
    assert pieces[-2].choices[0].finish_reason == "length"
    assert pieces[-1].usage.completion_tokens == 30


def test_answers_chats(server):
    messages = [{"role": "user", "content": "x = 1"}]
    answer = server.client.chat.completions.create(model="x", messages=messages, max_tokens=12)
    same = server.client.completions.create(model="x", prompt="user: x = 1\nassistant:", max_tokens=12)
    assert answer.choices[0].message.content == same.choices[0].text
    assert answer.choices[0].message.role == "assistant"
    stream = server.client.chat.completions.create(model="x", messages=messages, max_tokens=12, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in stream) == same.choices[0].text


def test_logprobs_match_transformers(server, golden):
    """The golden contains transformers' logits of the token after the prompt."""
    case = golden("tinymoe")
    logits = np.float64(case.rows("prefill", "logits")[-1])
    expected = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    answer = server.client.completions.create(model="x", prompt=case.steps[0][2], max_tokens=1, logprobs=20)
    found = answer.choices[0].logprobs
    order = np.argsort(-expected)[:20]
    assert found.tokens == [chr(order[0])] and found.text_offset == [0]
    assert found.token_logprobs == pytest.approx([expected[order[0]]], abs=1e-4)
    assert sorted(found.top_logprobs[0].values()) == pytest.approx(sorted(expected[order]), abs=1e-4)


def test_answers_lists_of_prompts(server):
    prompts = ["def main(", "import ", "x"]
    answer = server.client.completions.create(model="x", prompt=prompts, max_tokens=12)
    single = [server.client.completions.create(model="x", prompt=prompt, max_tokens=12) for prompt in prompts]
    assert [choice.text for choice in answer.choices] == [one.choices[0].text for one in single]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage.prompt_tokens == sum(one.usage.prompt_tokens for one in single)
    assert answer.usage.completion_tokens == 36
    tokens = server.client.completions.create(model="x", prompt=[list(map(ord, prompt)) for prompt in prompts], max_tokens=12)
    assert [choice.text for choice in tokens.choices] == [choice.text for choice in answer.choices]


def test_answers_several_texts_per_prompt(server):
    wanted = {"model": "x", "messages": [{"role": "user", "content": "x = 1"}], "max_tokens": 10, "temperature": 1, "seed": 5}
    whole = [choice.message.content for choice in server.client.chat.completions.create(**wanted, n=3).choices]
    assert len(set(whole)) == 3
    for i, text in enumerate(whole):
        one = server.client.chat.completions.create(**{**wanted, "seed": 5 + i})
        assert one.choices[0].message.content == text
    streamed, roles = ["", "", ""], [0, 0, 0]
    for piece in server.client.chat.completions.create(**wanted, n=3, stream=True):
        choice = piece.choices[0]
        streamed[choice.index] += choice.delta.content or ""
        roles[choice.index] += choice.delta.role == "assistant"
    assert streamed == whole and roles == [1, 1, 1]


def test_chats_and_streams_have_logprobs(server):
    wanted = {"model": "x", "messages": [{"role": "user", "content": "x = 1"}], "max_tokens": 8, "logprobs": True,
              "top_logprobs": 2}
    whole = server.client.chat.completions.create(**wanted).choices[0]
    tokens = whole.logprobs.content
    assert "".join(token.token for token in tokens) == whole.message.content
    assert [token.bytes for token in tokens] == [list(token.token.encode()) for token in tokens]
    for token in tokens:
        assert token.logprob == token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
    pieces = server.client.chat.completions.create(**wanted, stream=True)
    streamed = [token for piece in pieces if piece.choices and piece.choices[0].logprobs
                for token in piece.choices[0].logprobs.content]
    assert streamed == tokens
    del wanted["logprobs"], wanted["top_logprobs"]
    assert server.client.chat.completions.create(**wanted).choices[0].logprobs is None


def test_stop_texts_are_omitted(server):
    whole = server.client.completions.create(model="x", prompt="def main(", max_tokens=40).choices[0].text
    stop = whole[10:13]
    for stream in (False, True):
        answer = server.client.completions.create(model="x", prompt="def main(", max_tokens=40, stop=stop, stream=stream)
        choices = [piece.choices[0] for piece in answer] if stream else [answer.choices[0]]
        assert "".join(choice.text for choice in choices) == whole[:whole.index(stop)]
        assert choices[-1].finish_reason == "stop"


def test_longer_prompts_reuse_the_cache(server):
    first = server.client.completions.create(model="x", prompt="class Cached:", max_tokens=20)
    longer = "class Cached:" + first.choices[0].text + "\n"
    again = server.client.completions.create(model="x", prompt=longer, max_tokens=5)
    assert again.usage.prompt_tokens_details.cached_tokens == len(longer) - 2


def test_serves_eight_clients_at_once(folder):
    server = Server(folder, "--sequences", "3")
    prompts = [f"def f{i}(x):" for i in range(8)]
    answers = {}

    def ask(prompt):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="-", max_retries=0)
        answers[prompt] = client.completions.create(model="x", prompt=prompt, max_tokens=16).choices[0].text

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert server.stop() == 0
    assert set(answers) == set(prompts)
    assert answers[prompts[0]] == run(folder, prompts[0], 16)
    assert answers[prompts[7]] == run(folder, prompts[7], 16)


def test_expert_slots_give_equal_text(export):
    folder = export(REPO / "models/tinymoe", "--target", "onnx", "--dtype", "f32", "--tokens", "1,16", "--context", "256",
                    "--experts-per-shard", "4")
    server = Server(folder, "--capacity", "3", "--policy", "lcp")
    answer = server.client.completions.create(model="x", prompt="def main(", max_tokens=12)
    assert answer.choices[0].text == run(folder, "def main(", 12)
    assert server.stop() == 0
    server = Server(folder, "--capacity", "3", "--on-miss", "stop")
    status, answer = server.post(b'{"prompt": "def main(", "max_tokens": 12}')
    assert (status, answer["error"]["code"]) == (500, "session.expert_missing"), "three slots are too few"
    assert server.stop() == 0


def test_server_restores_resident_experts(export, tmp_path):
    folder = export(REPO / "models/tinymoe", "--target", "onnx", "--dtype", "f32", "--tokens", "1,16", "--context", "256",
                    "--experts-per-shard", "4")
    said = []
    for _ in range(2):
        server = Server(folder, "--capacity", "8", "--state", tmp_path / "experts.state")
        answer = server.client.completions.create(model="x", prompt="def main(", max_tokens=12)
        assert answer.choices[0].text == run(folder, "def main(", 12)
        assert server.stop() == 0
        said.append(server.process.stderr.read())
        assert json.loads((tmp_path / "experts.state").read_text())["format"] == "moec.expert_cache"
    assert "[initial load:" not in said[0] and "[initial load: 32 experts, " in said[1]


@pytest.mark.parametrize(("body", "code"), [
    (b"", "serve.syntax"), (b"{", "serve.syntax"), (b"\xff\xfe", "serve.syntax"), (b"[1]", "serve.bad_value"),
    (b'{"prompt": "a", "best_of": 3}', "serve.unsupported"), (b'{"prompt": [999]}', "run.token"),
    (b'{"prompt": "' + b"a" * 300 + b'"}', "session.context_full"), (b"[" * 5000, "serve.syntax"),
])
def test_bad_requests_are_rejected_by_code(server, body, code):
    status, answer = server.post(body)
    assert (status, answer["error"]["code"]) == (400, code)
    assert answer["error"]["type"] == "invalid_request_error"


def test_rejects_large_requests_and_unknown_paths(folder, server):
    assert server.post(b"{}", "/v1/embeddings")[0] == 404
    small = Server(folder, "--max-body", "1MiB")
    assert small.post(b'{"prompt": "' + b"a" * (2 << 20) + b'"}')[0] == 413
    assert small.post(b'{"prompt": "a", "max_tokens": 2}')[0] == 200
    assert small.stop() == 0


def send(server, data, pause=0.0):
    """Sends the bytes in pieces with pauses and returns the server's answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        try:
            for piece in data:
                client.sendall(piece)
                time.sleep(pause)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server closed the connection after answering
        answer = b""
        try:
            while more := client.recv(1 << 16):
                answer += more
        except OSError:
            pass
    return answer


def status_of(answer):
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else None


def request(body=b"", *headers, path="/v1/completions", method="POST", host="localhost"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def peak_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) >> 10


def in_chunks(size, piece=1 << 16):
    chunk = b"%x\r\n" % piece + b" " * piece + b"\r\n"
    return [request(b"", "Transfer-Encoding: chunked"), *[chunk] * (size // piece), b"0\r\n\r\n"]


@pytest.mark.parametrize(("data", "status"), [
    (in_chunks(64 << 20), 413),
    ([request(gzip.compress(b" " * (64 << 20)), "Content-Encoding: gzip", "Content-Length: 70000")], 415),
    ([request(b"", "X: " + "a" * (8 << 20))], 431),
    ([request(b"", *[f"X{i}: a" for i in range(100_000)])], 431),
    ([request(b"", "Content-Length: 99999999999")], 413),
    ([b"GET /" + b"a" * (1 << 20)], 431),
    ([request(b"a=b", "Content-Length: 3", "Content-Type: text/plain")], 415),
    ([request(b"", "Content-Length: 0", "Content-Type: multipart/form-data; boundary=x")], 415),
], ids=["chunks", "gzip", "header", "headers", "announced", "line", "form", "parts"])
def test_rejects_requests_beyond_the_limits(folder, data, status):
    server = Server(folder)
    before = peak_mib(server)
    assert status_of(send(server, data)) == status
    assert peak_mib(server) - before < 40
    assert server.post(b'{"prompt": "a", "max_tokens": 1}')[0] == 200, "the server must still answer"
    assert server.stop() == 0


def in_bytes(body):
    """A chunked request with one byte per chunk."""
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    return request(chunks, "Transfer-Encoding: chunked")


def test_accepts_chunked_requests(server):
    assert status_of(send(server, [in_bytes(b'{"prompt": "a", "max_tokens": 2}')])) == 200


def test_counts_only_data_of_chunks(folder):
    server = Server(folder, "--max-body", "128KiB")
    body = b'{"prompt": "a", "max_tokens": 2}'.ljust(128 << 10)
    assert status_of(send(server, [in_bytes(body)])) == 200
    assert status_of(send(server, [in_bytes(body + b" ")])) == 413
    assert server.stop() == 0


def is_readable(client):
    """Unlike select(), supports file descriptors above 1023."""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(0))


def test_slow_clients_do_not_block_others(folder):
    server = Server(folder, "--connections", "4", "--timeout", "1")
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    for client in slow:
        client.sendall(b"POST /v1/comple")
    time.sleep(0.2)
    refused = [client for client in slow if is_readable(client)]
    assert [status_of(client.recv(1 << 16)) for client in refused] == [503] * 4
    waited = time.monotonic() + 20
    while time.monotonic() < waited and status_of(send(server, [request(path="/health", method="GET")])) != 200:
        time.sleep(0.2)
    assert time.monotonic() < waited, "slow connections blocked the server"
    assert {status_of(client.recv(1 << 16)) for client in slow if client not in refused} == {408}
    assert server.stop() == 0


@pytest.mark.parametrize(("headers", "status"), [
    ({"host": "evil.example"}, 403), ({"host": "evil.example:80"}, 403), ({"host": "127.0.0.1:9"}, 200),
    ({"host": "[::1]:9"}, 200), ({"host": "box.local"}, 200), ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://page.example"}, 200), ({"key": None}, 401), ({"key": "wrong"}, 401),
])
def test_checks_key_host_and_origin(folder, tmp_path, headers, status):
    (tmp_path / "key").write_text("secret\n")
    server = Server(folder, "--api-key-file", tmp_path / "key", "--allow-host", "box.local", "--allow-origin", "http://page.example")
    lines = ["Connection: close"]
    if key := headers.get("key", "secret"):
        lines.append(f"Authorization: Bearer {key}")
    if origin := headers.get("origin"):
        lines.append(f"Origin: {origin}")
    host = headers.get("host", "localhost")
    answer = send(server, [request(b"", *lines, path="/v1/models", method="GET", host=host)])
    assert status_of(answer) == status, answer
    assert (b"Access-Control-Allow-Origin: http://page.example" in answer) == (origin == "http://page.example")
    asked = send(server, [request(b"", "Origin: http://page.example", method="OPTIONS")])
    assert status_of(asked) == 204 and b"Access-Control-Allow-Methods" in asked
    assert status_of(send(server, [request(path="/health", method="GET")])) == 200
    assert server.stop() == 0


def test_ignores_range_headers(server):
    whole = send(server, [request(path="/v1/models", method="GET")])
    many = "Range: bytes=" + ",".join(["0-50"] * 500)
    assert len(send(server, [request(b"", many, path="/v1/models", method="GET")])) == len(whole)


def test_exits_with_a_message_without_threads(folder):
    command = f"ulimit -v 800000; exec {find_binary()} serve {folder} --port 0 --connections 1024"
    process = subprocess.Popen(["bash", "-c", command], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.terminate()
    assert process.wait(timeout=20) in (0, 2), process.stderr.read()


def test_texts_without_a_seed_differ(server):
    texts = {server.client.completions.create(model="x", prompt="a", max_tokens=24, temperature=1).choices[0].text
             for _ in range(4)}
    assert len(texts) > 1
    same = {server.client.completions.create(model="x", prompt="a", max_tokens=24, temperature=1, seed=5).choices[0].text
            for _ in range(2)}
    assert len(same) == 1


def test_lists_one_model(server):
    name = server.client.models.list().data[0].id
    assert server.client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError):
        server.client.models.retrieve("other")


def test_client_raises_the_servers_error(server):
    with pytest.raises(openai.BadRequestError) as error:
        server.client.completions.create(model="x", prompt="a", echo=True)
    assert error.value.code == "serve.unsupported"


def leave(server, max_tokens, stream):
    """Requests a text and disconnects before the answer arrives."""
    body = json.dumps({"prompt": "a", "max_tokens": max_tokens, "stream": stream}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as leaving:
        leaving.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(0.05)


@pytest.mark.parametrize("stream", [False, True])
def test_disconnected_clients_free_their_sequence(long_folder, stream):
    server = Server(long_folder, "--sequences", "1")
    for _ in range(3):
        leave(server, LONG - 2, stream)
    began = time.monotonic()
    answer = server.client.completions.create(model="x", prompt="b", max_tokens=3)
    waited = time.monotonic() - began
    assert answer.usage.completion_tokens == 3
    began = time.monotonic()
    server.client.completions.create(model="x", prompt="c", max_tokens=LONG - 2)
    assert waited < (time.monotonic() - began) / 2, "texts of disconnected clients were still generated"
    assert server.stop() == 0


def test_truncated_weights_fail_the_request(folder, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    server = Server(copy)
    assert server.post(b'{"prompt": "a", "max_tokens": 2}')[0] == 200
    with next((copy / "lm_head").glob("*.data")).open("r+b") as file:  # smaller weights stay in memory
        file.truncate(1000)
    status, answer = server.post(b'{"prompt": "b", "max_tokens": 2}')
    assert (status, answer["error"]["code"]) == (500, "weights.file_changed")
    assert server.post(b"{}")[0] == 400, "the server must still answer"
    assert server.stop() == 0


def test_reports_a_port_in_use(server, folder):
    second = subprocess.run([find_binary(), "serve", folder, "--port", str(server.port)], capture_output=True,
                            text=True, check=False, timeout=60)
    assert second.returncode == 2
    assert "serve.address" in second.stderr


@pytest.fixture(scope="module")
def worded(tmp_path_factory, export):
    """A model with character tokens, one merged pair, and a chat template."""
    checkpoint = tmp_path_factory.mktemp("worded") / "checkpoint"
    shutil.copytree(REPO / "tests/golden/qwen3_moe_a", checkpoint)
    size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
    characters = (string.ascii_letters + " []!.,:'" + string.digits + "".join(map(chr, range(256, 512))))[:size - 1]
    vocabulary = {text: i for i, text in enumerate([*characters, "th"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("t", "h")]))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.save(str(checkpoint / "tokenizer.json"))
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}[assistant]"
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"eos_token": "!", "chat_template": template}))
    return export(checkpoint, "--target", "onnx", "--dtype", "f32", "--tokens", "1,16", "--context", "64"), tokenizer


@pytest.fixture(scope="module")
def texts(worded):
    server = Server(worded[0])
    yield server
    assert server.stop() == 0


def test_accepts_and_returns_text(texts, worded):
    _, tokenizer = worded
    tokens = tokenizer.encode("the path").ids
    assert len(tokens) == 6
    there = texts.client.completions.create(model="x", prompt=tokens, max_tokens=12)
    text = tokenizer.decode(there.choices[0].model_extra["token_ids"])
    here = texts.client.completions.create(model="x", prompt="the path", max_tokens=12)
    assert here.choices[0].text == text
    assert here.usage.prompt_tokens == 6
    stream = texts.client.completions.create(model="x", prompt="the path", max_tokens=12, stream=True)
    assert "".join(piece.choices[0].text for piece in stream) == text


def test_text_ends_before_its_stop(texts, worded):
    _, tokenizer = worded
    text = texts.client.completions.create(model="x", prompt="the path", max_tokens=12).choices[0].text
    stop = text[4]
    cut = texts.client.completions.create(model="x", prompt="the path", max_tokens=12, stop=stop)
    assert cut.choices[0].text == text[:text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    assert cut.usage.completion_tokens == len(cut.choices[0].model_extra["token_ids"]) < 12
    pieces = list(texts.client.completions.create(model="x", prompt="the path", max_tokens=12, stop=stop, stream=True,
                                                  stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == cut.choices[0].text
    assert pieces[-1].usage == cut.usage


def test_chats_are_rendered_with_the_template(texts):
    chat = texts.client.chat.completions.create(model="x", messages=[{"role": "user", "content": "Hi"}], max_tokens=9)
    same = texts.client.completions.create(model="x", prompt="[user] Hi![assistant]", max_tokens=9)
    assert chat.choices[0].message.content == same.choices[0].text
    assert chat.usage.prompt_tokens == same.usage.prompt_tokens
    stream = texts.client.chat.completions.create(model="x", messages=[{"role": "user", "content": "Hi"}], max_tokens=9,
                                                  stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in stream) == same.choices[0].text


def test_chats_accept_tools_and_parts(texts):
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": "5", "tool_call_id": "1"}]
    chat = texts.client.chat.completions.create(model="x", messages=messages, tools=[tool], tool_choice="auto", max_tokens=3,
                                                extra_body={"chat_template_kwargs": {"thinking": False}})
    same = texts.client.completions.create(model="x", prompt="[user] Hi![assistant] ![tool] 5![assistant]", max_tokens=3)
    assert chat.choices[0].message.content == same.choices[0].text


CALL = ["Let me look. ", "<tool_", 'call>{"name": "f", "argum', 'ents": {"x": [1, 2.5]}}', "</tool_call>", "STOP"]


@pytest.fixture(scope="module")
def caller(texts, worded, tmp_path_factory, export):
    """A model whose sampled tokens, with the additional options, form the texts of CALL."""
    drawn = dict(temperature=2, max_tokens=len(CALL))
    for seed in range(100):
        answer = texts.client.completions.create(model="x", prompt=[0], seed=seed, **drawn)
        tokens = answer.choices[0].model_extra["token_ids"]
        if len({*tokens, 0}) == len(CALL) + 1:
            break
    checkpoint = tmp_path_factory.mktemp("caller") / "checkpoint"
    shutil.copytree(REPO / "tests/golden/qwen3_moe_a", checkpoint)
    size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
    names = dict(enumerate(["a", *map(chr, range(256, 256 + size - 1))])) | dict(zip(tokens, CALL))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: token for token, text in names.items()}, []))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.save(str(checkpoint / "tokenizer.json"))
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"chat_template": "a"}))
    server = Server(export(checkpoint, "--target", "onnx", "--dtype", "f32", "--context", "64"))
    yield server, drawn | dict(seed=seed, stop="STOP", messages=[{"role": "user", "content": "Hi"}])
    assert server.stop() == 0


def test_tool_calls_are_extracted_from_answers(caller):
    server, options = caller
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    choice = server.client.chat.completions.create(model="x", tools=tools, **options).choices[0]
    [call] = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("Let me look.", "tool_calls")
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == ("function", "f", {"x": [1, 2.5]})
    pieces = [piece.choices[0] for piece in
              server.client.chat.completions.create(model="x", tools=tools, stream=True, **options)]
    [call] = [call for piece in pieces for call in piece.delta.tool_calls or []]
    assert (call.index, call.function.name, json.loads(call.function.arguments)) == (0, "f", {"x": [1, 2.5]})
    assert "".join(piece.delta.content or "" for piece in pieces) == "Let me look."
    assert pieces[-1].finish_reason == "tool_calls"


def test_resumed_answers_keep_their_calls(caller):
    """A reply has the calls and the text that the client lacks, also if a call was cut."""
    server, options = caller
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    tokens = server.client.chat.completions.create(model="x", **options).choices[0].model_extra["token_ids"]

    def resumed(count, **has):
        resume = {"token_ids": tokens[:count], "text_bytes": len("Let me look."), **has}
        choice = server.client.chat.completions.create(model="x", tools=tools, **options,
                                                       extra_body={"resume": resume}).choices[0]
        return choice.message, tokens[:count] + choice.model_extra["token_ids"]

    message, whole = resumed(5)
    assert [call.function.name for call in message.tool_calls] == ["f"] and len(whole) == len(tokens)
    assert "tool_call" not in (message.content or "")
    again, _ = resumed(5, tool_calls=1)
    assert again.tool_calls is None and again.content == (message.content or "")
    cut, _ = resumed(3)
    assert cut.content.startswith(" " + "".join(CALL[1:3])) and cut.tool_calls is None


@pytest.mark.parametrize("more", [{}, {"tools": [], "tool_choice": "none"},
                                  {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"}])
def test_calls_without_tools_are_text(more, caller):
    server, options = caller
    choice = server.client.chat.completions.create(model="x", **options, **more).choices[0]
    assert choice.message.content == "".join(CALL[:-1]) and choice.message.tool_calls is None
    assert choice.finish_reason == "stop"


def test_rejects_invalid_texts_and_chats(texts):
    def code(body, path="/v1/chat/completions"):
        status, answer = texts.post(json.dumps(body).encode(), path)
        return status, answer["error"]["code"]

    assert code({"messages": 5}) == (400, "serve.chat")
    assert code({"messages": []}) == (400, "serve.chat")
    assert code({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1}) == (400, "serve.chat")
    assert code({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}) == (400, "serve.unsupported")
    assert code({"prompt": "a", "tools": [{}]}, "/v1/completions") == (400, "serve.unsupported")
    assert code({"prompt": "a", "stop": [""]}, "/v1/completions") == (400, "serve.bad_value")


def test_missing_template_engine_rejects_only_chats(worded):
    server = Server(worded[0], python="/nowhere/python3")
    status, answer = server.post(b'{"messages": [{"role": "user", "content": "a"}]}', "/v1/chat/completions")
    assert (status, answer["error"]["code"]) == (500, "chat.python")
    assert server.post(b'{"prompt": "a", "max_tokens": 1}')[0] == 200
    assert server.stop() == 0


def talk(folder, *words, given=None):
    command = [find_binary(), "run", folder, "--chat", "--python", sys.executable, "--max-tokens", "5", *words]
    return subprocess.run(command, capture_output=True, text=True, input=given, timeout=60)


def test_run_answers_messages(texts, worded):
    one = talk(worded[0], "--prompt", "Hi")
    chat = texts.client.chat.completions.create(model="x", messages=[{"role": "user", "content": "Hi"}], max_tokens=5)
    assert one.stdout == chat.choices[0].message.content + "\n"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": chat.choices[0].message.content},
                {"role": "user", "content": "So"}]
    second = texts.client.chat.completions.create(model="x", messages=messages, max_tokens=5)
    two = talk(worded[0], given="Hi\nSo\n")
    assert two.stdout == one.stdout + second.choices[0].message.content + "\n"


def test_run_without_template_rejects_messages(folder):
    assert "run.no_chat" in talk(folder, "--prompt", "Hi").stderr
