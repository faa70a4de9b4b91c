"""Renders the chat template of a folder as transformers does. Requires jinja2. moec runs it as a child process:

    python3 chat_template.py FOLDER

Each request on standard input is a length in bytes, a newline, and that number of bytes of JSON: the body of a request
to /v1/chat/completions. The answer on standard output has the same framing and is {"text": …} or {"error": …}. The
script exits at the end of its input.
"""

import datetime
import json
import pathlib
import signal
import sys

SPECIAL_TOKENS = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]


class TemplateError(ValueError):
    """The chat template is missing or malformed, or refuses the messages."""


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def special_tokens(config):
    """Returns {name: text} of the special tokens in the config. Omits absent ones, because templates test for them."""
    tokens = {name: config[name] for name in SPECIAL_TOKENS if config.get(name)}
    return {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}


def stored_templates(folder, config):
    """Returns {name: source} of the chat templates in a folder. If there are template files, they replace all templates
    of tokenizer_config.json, as in transformers."""
    files = [("default", folder / "chat_template.jinja")]
    files += [(named.stem, named) for named in sorted((folder / "additional_chat_templates").glob("*.jinja"))]
    templates = {name: file.read_text(encoding="utf-8") for name, file in files if file.is_file()}
    if templates:
        return templates
    stored = read_json(folder / "chat_template.json").get("chat_template", config.get("chat_template"))
    if isinstance(stored, list):
        return {entry["name"]: entry["template"] for entry in stored}
    return {"default": stored} if isinstance(stored, str) else {}


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """Replaces jinja2's filter tojson, which escapes HTML and non-ASCII characters and so changes the tokens."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def refuse(message):
    raise TemplateError(f"the chat template refuses the messages: {message}")


def make_environment():
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """The tag {% generation %}, which marks the assistant's text for training. Its body is rendered unchanged."""

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
    """The chat templates of a folder. render() raises TemplateError for any error in the files or templates."""

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
        """Returns the rendered messages, followed by the generation prompt."""
        given = {"messages": messages, "tools": tools, "documents": documents, "add_generation_prompt": True}
        try:
            config = read_json(self.folder / "tokenizer_config.json")
            template = make_environment().from_string(self.source(config, tools))
            return template.render(**special_tokens(config), **(given | variables))
        except TemplateError:
            raise
        except Exception as error:  # a template is a program and can raise any exception
            raise TemplateError(f"the chat template does not accept the messages: {error}") from error


def text_of_parts(content):
    """Joins the parts of a content that is a list of text parts. Returns any other content unchanged."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "\n".join(part.get("text", "") for part in content)
    return content


def with_objects(call):
    """Returns the tool call with parsed arguments. Clients send a JSON string, but templates expect an object."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        return call | {"function": function | {"arguments": json.loads(function["arguments"] or "{}")}}
    except ValueError as error:
        raise TemplateError(f"the arguments of a tool call are not JSON: {error}") from error


def message_for_template(message):
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise TemplateError("a message must be an object with a role")
    message = message | {"content": text_of_parts(message.get("content"))}
    if isinstance(message.get("tool_calls"), list):
        message["tool_calls"] = [with_objects(call) for call in message["tool_calls"]]
    return message


def answer(template, request):
    """Returns the rendered text of a request's messages."""
    messages, kwargs = request.get("messages"), request.get("chat_template_kwargs") or {}
    if not isinstance(messages, list) or not messages:
        raise TemplateError("messages must be a list with at least one message")
    if not isinstance(kwargs, dict):
        raise TemplateError("chat_template_kwargs must be an object")
    given = {name: request[name] for name in ("tools", "documents") if request.get(name)}
    return template.render([message_for_template(message) for message in messages], **(given | kwargs))


def serve(folder, requests, answers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in the terminal is for the parent process
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
