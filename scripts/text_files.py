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
