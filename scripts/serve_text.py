#!/usr/bin/env python3
"""Gives text to a `moec serve` whose model's tokens are not bytes: its tokenizer and its chat template.

    moec serve OUT --port 8081
    scripts/serve_text.py OUT --behind http://127.0.0.1:8081 [--host 127.0.0.1] [--port 8080]

OUT is the exported folder, which carries tokenizer.json and the chat template of the checkpoint. Requests are those of
`moec serve` (/v1/completions, /v1/chat/completions, /v1/models, /health) with text in the place of token ids, and are
passed on with token ids; what comes back is decoded. Needs the packages tokenizers and jinja2.
"""

import argparse
import contextlib
import http.client
import json
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from text_files import ChatTemplate, TemplateError, open_tokenizer

MOST_BODY = 4 << 20
UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # what the bytes of a part of a character decode to


class BadRequest(Exception):
    """What the client can mend; its arguments are the code and the cause."""


class BehindFailed(Exception):
    """What moec serve says has gone wrong while it wrote the text: its error object."""


class Texts:
    """The tokenizer and the chat template of an export."""

    def __init__(self, folder):
        path = folder / "tokenizer.json"
        if not path.is_file():
            sys.exit(f"{path}: there is no tokenizer; export the model again from a checkpoint that has one")
        self.tokenizer = open_tokenizer(path)
        self.template = ChatTemplate(folder)

    def of_messages(self, messages):
        try:
            text = self.template.render(messages)
        except TemplateError as error:
            raise BadRequest("serve.chat", str(error)) from error
        return self.tokenizer.encode(text, add_special_tokens=False).ids  # the template has them

    def of_text(self, text):
        return self.tokenizer.encode(text).ids


class Decoder:
    """The text of tokens as they come, cut before the first stop text."""

    def __init__(self, tokenizer, stops):
        self.tokenizer, self.stops = tokenizer, stops
        self.tokens, self.said, self.stopped = [], 0, False

    def add(self, tokens, last):
        """What can be said now. Until the last tokens, the beginning of a stop text is kept back."""
        self.tokens += tokens
        text = self.tokenizer.decode(self.tokens)
        ends = [text.find(stop) for stop in self.stops if stop in text]
        if ends:
            text, self.stopped = text[:min(ends)], True
        elif not last:
            text = text.rstrip(UNFINISHED)
            text = text[:len(text) - self.kept_back(text)]
        piece = text[self.said:]
        self.said += len(piece)
        return piece

    def fill(self, choice):
        """Gives a choice its text, and takes the tokens behind the one that completes a stop text away."""
        tokens, last = choice["token_ids"], choice["finish_reason"] is not None
        choice["text"], taken = "" if tokens else self.add([], last), 0
        while taken < len(tokens) and not self.stopped:
            taken += 1
            choice["text"] += self.add([tokens[taken - 1]], last and taken == len(tokens))
        choice["token_ids"] = tokens[:taken]

    def kept_back(self, text):
        sizes = [size for stop in self.stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
        return max(sizes, default=0)


def stops_of(body):
    stops = body.pop("stop", None) or []
    stops = [stops] if isinstance(stops, str) else stops
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops) or len(stops) > 4:
        raise BadRequest("serve.bad_value", "stop must be up to 4 texts")
    return stops


def usage_wanted(body):
    """Whether the client wants counts. The server behind is asked for a stream with counts in any case: a stop text ends
    it at the token that completes this text. What is no stream_options is left to it to refuse."""
    options = body.get("stream_options") or {}
    if isinstance(body.get("stream") or False, bool) and isinstance(options, dict):
        body["stream"], body["stream_options"] = True, {**options, "include_usage": True}
        return options.get("include_usage") is True
    return False


def replies_of(answer, decoder, prompt_tokens):
    """The replies of a stream of moec serve, with text in the place of token ids, and at last the counts."""
    written = 0
    for line in answer:
        data = line.removeprefix(b"data: ").strip()
        if not data:
            continue
        if data == b"[DONE]":
            return
        reply = json.loads(data)
        if "error" in reply:
            raise BehindFailed(reply["error"])
        for choice in reply["choices"]:
            decoder.fill(choice)
            written += len(choice["token_ids"])
            choice["finish_reason"] = "stop" if decoder.stopped else choice["finish_reason"]
        yield reply
        if decoder.stopped and reply["choices"]:
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": written,
                     "total_tokens": prompt_tokens + written}
            yield {**reply, "choices": [], "usage": usage}
            return
    raise http.client.HTTPException("its answer has no end")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing of each request."""

    @contextlib.contextmanager
    def behind(self, method, path, body=None):
        """The answer of moec serve. Behind the with block nobody listens to it, which ends its text."""
        with contextlib.closing(http.client.HTTPConnection(self.server.behind)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                yield answer

    def reply(self, status, body):
        self.answered = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, cause):
        error = {"message": cause, "type": "invalid_request_error" if status < 500 else "server_error",
                 "param": None, "code": code}
        self.reply(status, json.dumps({"error": error}).encode())

    def do_GET(self):
        self.answer(self.pass_on)

    def do_POST(self):
        self.answer(self.complete)

    def answer(self, act):
        self.answered = False
        try:
            act()
        except BadRequest as error:
            self.refuse(400, *error.args)
        except BehindFailed as error:
            failed = json.dumps({"error": error.args[0]})
            if self.answered:
                self.say(failed)
            else:
                self.reply(500, failed.encode())
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.close_connection = True
            if not self.answered:  # what began ends without its end
                self.refuse(502, "serve.behind", f"moec serve does not answer: {error}")

    def pass_on(self):
        with self.behind("GET", self.path) as answer:
            self.reply(answer.status, answer.read())

    def request_body(self):
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > MOST_BODY:
            self.close_connection = True
            raise BadRequest("serve.refused", f"the body must have a Content-Length of at most {MOST_BODY}")
        try:
            body = json.loads(self.rfile.read(int(size)))
        except ValueError as error:
            raise BadRequest("serve.syntax", f"the body is no JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadRequest("serve.bad_value", "the body must be an object")
        return body

    def complete(self):
        body, texts = self.request_body(), self.server.texts
        self.chat = self.path == "/v1/chat/completions"
        if self.chat:
            body["prompt"] = texts.of_messages(body.pop("messages", None))
        elif isinstance(body.get("prompt"), str):
            body["prompt"] = texts.of_text(body["prompt"])
        decoder = Decoder(texts.tokenizer, stops_of(body))
        path = "/v1/completions" if self.chat else self.path
        stream, with_usage = body.get("stream"), usage_wanted(body)
        with self.behind("POST", path, json.dumps(body)) as answer:
            if answer.status != 200:
                self.reply(answer.status, answer.read())
                return
            replies = replies_of(answer, decoder, len(body["prompt"]))
            if stream:
                self.pass_events(replies, with_usage)
            else:
                self.reply(200, json.dumps(self.whole(replies)).encode())

    def worded(self, reply, whole):
        """A reply as the path that was asked says it."""
        if self.chat:
            reply["object"] = "chat.completion" if whole else "chat.completion.chunk"
            for choice in reply["choices"]:
                choice["message" if whole else "delta"] = {"role": "assistant", "content": choice.pop("text")}
        return reply

    def whole(self, replies):
        first, *rest = replies
        if not rest or not first["choices"]:
            raise http.client.HTTPException("its answer has no end")
        choice = first["choices"][0]
        for more in (reply["choices"][0] for reply in rest[:-1]):
            choice["text"] += more["text"]
            choice["token_ids"] += more["token_ids"]
            choice["finish_reason"] = more["finish_reason"]
        return self.worded({**first, "usage": rest[-1]["usage"]}, True)

    def pass_events(self, replies, with_usage):
        self.answered = True
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for reply in replies:
            if reply.get("choices") or with_usage:
                self.say(json.dumps(self.worded(reply, False)))
        self.say("[DONE]")

    def say(self, data):
        self.wfile.write(b"data: " + data.encode() + b"\n\n")
        self.wfile.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the exported folder")
    parser.add_argument("--behind", default="http://127.0.0.1:8081", help="where moec serve listens (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="0: one that is free (default: %(default)s)")
    arguments = parser.parse_args()
    server = ThreadingHTTPServer((arguments.host, arguments.port), Handler)
    server.texts = Texts(arguments.out)
    server.behind = urllib.parse.urlsplit(arguments.behind).netloc
    print(f"serving at http://{arguments.host}:{server.server_port}/v1", file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
