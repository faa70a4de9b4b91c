"""The files of an export that turn text into tokens: tokenizer.json and chat templates, read as transformers does.

`open_tokenizer()` needs the package tokenizers, `ChatTemplate` the package jinja2.
"""

import datetime
import json

SPECIAL_TOKENS = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]


def open_tokenizer(path):
    """The tokenizer of a tokenizer.json, without the truncation and padding that a trainer saved in it.

    transformers applies neither unless the caller asks for it; the file alone would cut long prompts silently.
    """
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class TemplateError(ValueError):
    """A chat template that is missing, malformed, or refuses the messages."""


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


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
    """The chat templates of a folder. Their errors are errors of rendering, never of loading."""

    def __init__(self, folder):
        self.config = read_json(folder / "tokenizer_config.json")
        self.special = {name: self.special_token(name) for name in SPECIAL_TOKENS}
        self.templates = stored_templates(folder, self.config)

    def special_token(self, name):
        token = self.config.get(name) or ""
        return token["content"] if isinstance(token, dict) else token

    def source(self, tools):
        if tools and "tool_use" in self.templates:
            return self.templates["tool_use"]
        if "default" not in self.templates:
            raise TemplateError("the export has no chat template")
        return self.templates["default"]

    def render(self, messages, tools=None, documents=None, **variables):
        """The text of the messages, with the prompt for the assistant's answer. Raises TemplateError."""
        import jinja2

        given = {"messages": messages, "tools": tools, "documents": documents, "add_generation_prompt": True}
        try:
            template = make_environment().from_string(self.source(tools))
            return template.render(**self.special, **(given | variables))
        except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
            if isinstance(error, TemplateError):
                raise
            raise TemplateError(f"the chat template does not accept the messages: {error}") from error
