"""scripts/text_files.py reads tokenizers and chat templates as transformers does."""

import datetime
import json
import pathlib
import sys

import pytest
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

from text_files import ChatTemplate, TemplateError, open_tokenizer  # noqa: E402

USER = [{"role": "user", "content": "Grüße <b>"}]


def folder_with(path, template=None, **config):
    if template is not None:
        config["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def render(path, template, messages=USER, **variables):
    return ChatTemplate(folder_with(path, template, bos_token="<s>", eos_token={"content": "</s>"})).render(
        messages, **variables
    )


def test_saved_truncation_and_padding_are_not_applied(tmp_path):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[PAD]": 1}, unk_token="a"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(pad_id=1, length=64)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert open_tokenizer(tmp_path / "tokenizer.json").encode("a " * 44).ids == [0] * 44


@pytest.mark.parametrize(
    "template, text",
    [
        ("{{ bos_token }}{{ eos_token }}{{ pad_token }}", "<s></s>"),
        ("{% if bos_token is defined and pad_token is not defined %}bos{% endif %}", "bos"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "Grüße <b>"}'),
        ("{{ {'b': 1, 'a': [1]} | tojson(indent=1) }}", '{\n "b": 1,\n "a": [\n  1\n ]\n}'),
        ("{% if tools is none and documents is none %}none{% endif %}", "none"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}", "user"),
        ("{% if add_generation_prompt %}[assistant]{% endif %}", "[assistant]"),
        ("  {% if true %}\n  x\n  {% endif %}\n", "  x\n"),
        ("{{ strftime_now('%Y') }}", str(datetime.datetime.now().year)),
        ("{{ think }}", "yes"),
    ],
)
def test_templates_render_as_by_transformers(tmp_path, template, text):
    assert render(tmp_path, template, think="yes") == text


TABLE = json.loads((pathlib.Path(__file__).parent / "chat_templates.json").read_text())


@pytest.mark.parametrize("row", TABLE["templates"], ids=lambda row: row["feature"])
def test_features_of_published_templates(tmp_path, row):
    assert render(tmp_path, row["template"], TABLE["messages"]) == row["text"]


def test_tools_choose_the_template_for_them(tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | length }} tools"}]
    assert render(tmp_path, named) == "plain"
    assert render(tmp_path, named, tools=[{}, {}]) == "2 tools"


def test_files_go_before_the_config(tmp_path):
    template = ChatTemplate(folder_with(tmp_path, "config"))
    assert template.render(USER) == "config"
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "json"}))
    assert ChatTemplate(tmp_path).render(USER) == "json"
    (tmp_path / "chat_template.jinja").write_text("jinja")
    assert ChatTemplate(tmp_path).render(USER) == "jinja"
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("tools")
    assert ChatTemplate(tmp_path).render(USER, tools=[{}]) == "tools"


@pytest.mark.parametrize(
    "template", [None, "{% for", "{{ raise_exception('roles must alternate') }}", "{{ messages[9].content.x }}", "{{ 1 / 0 }}", [{"name": "x"}]]
)
def test_errors_of_templates_are_raised_by_rendering(tmp_path, template):
    loaded = ChatTemplate(folder_with(tmp_path, template))
    with pytest.raises(TemplateError):
        loaded.render(USER)
