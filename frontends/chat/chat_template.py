"""Renders the chat template of a folder as transformers does. moec runs it as a program, which needs the package jinja2:

    python3 chat_template.py FOLDER

A request on standard input is the number of its bytes, a line end, and that many bytes: the JSON of a request for
/v1/chat/completions. The answer has the same form: {"text": …} or {"error": …}. The program ends with its input.
"""

import datetime
import json
import pathlib
import signal
import sys

SPECIAL_TOKENS = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]


class TemplateError(ValueError):
    """A chat template that is missing, malformed, or refuses the messages."""


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def special_tokens(config):
    """Name -> text of the special tokens that the config has; a template may ask whether one is defined."""
    tokens = {name: config[name] for name in SPECIAL_TOKENS if config.get(name)}
    return {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}


def stored_templates(folder, config):
    """Name -> source of the chat templates of a folder. Files go before tokenizer_config.json."""
    stored = read_json(folder / "chat_template.json").get("chat_template", config.get("chat_template"))
    if isinstance(stored, list):
        templates = {entry["name"]: entry["template"] for entry in stored}
    else:
        templates = {"default": stored} if isinstance(stored, str) else {}
    file = folder / "chat_template.jinja"
    if file.is_file():
        templates["default"] = file.read_text(encoding="utf-8")
    for named in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[named.stem] = named.read_text(encoding="utf-8")
    return templates


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """jinja2's own filter escapes HTML and non-ASCII characters, which changes the tokens."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def refuse(message):
    raise TemplateError(f"the chat template refuses: {message}")


def make_environment():
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """{% generation %} marks the text of the assistant for training; its body is rendered as it is."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


class ChatTemplate:
    """The chat templates of a folder. Every fault of its files or of a template is a TemplateError of render()."""

    def __init__(self, folder):
        self.folder = folder

    def source(self, config, tools):
        templates = stored_templates(self.folder, config)
        if tools and "tool_use" in templates:
            return templates["tool_use"]
        if "default" not in templates:
            raise TemplateError("the export has no chat template")
        return templates["default"]

    def render(self, messages, tools=None, documents=None, **variables):
        """The text of the messages, with the prompt for the assistant's answer."""
        given = {"messages": messages, "tools": tools, "documents": documents, "add_generation_prompt": True}
        try:
            config = read_json(self.folder / "tokenizer_config.json")
            template = make_environment().from_string(self.source(config, tools))
            return template.render(**special_tokens(config), **(given | variables))
        except TemplateError:
            raise
        except Exception as error:  # a template is a program, which may raise anything
            raise TemplateError(f"the chat template does not accept the messages: {error}") from error


def text_of_parts(content):
    """The text of a content that is a list of text parts; others are left to the template."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "\n".join(part.get("text", "") for part in content)
    return content


def with_objects(call):
    """A tool call whose arguments are an object, as templates take them; clients send its JSON."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        return call | {"function": function | {"arguments": json.loads(function["arguments"] or "{}")}}
    except ValueError as error:
        raise TemplateError(f"the arguments of a tool call are no JSON: {error}") from error


def message_for_template(message):
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise TemplateError("a message must be an object with a role")
    message = message | {"content": text_of_parts(message.get("content"))}
    if isinstance(message.get("tool_calls"), list):
        message["tool_calls"] = [with_objects(call) for call in message["tool_calls"]]
    return message


def answer(template, request):
    """The text of a request's messages."""
    messages, kwargs = request.get("messages"), request.get("chat_template_kwargs") or {}
    if not isinstance(messages, list) or not messages:
        raise TemplateError("messages must be a list with at least one message")
    if not isinstance(kwargs, dict):
        raise TemplateError("chat_template_kwargs must be an object")
    given = {name: request[name] for name in ("tools", "documents") if request.get(name)}
    return template.render([message_for_template(message) for message in messages], **(given | kwargs))


def serve(folder, requests, answers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, which is for the program that asks
    template = ChatTemplate(pathlib.Path(folder))
    while size := requests.readline():
        try:
            reply = {"text": answer(template, json.loads(requests.read(int(size))))}
        except (TemplateError, ValueError) as error:
            reply = {"error": str(error)}
        body = json.dumps(reply).encode()
        answers.write(b"%d\n" % len(body) + body)
        answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
