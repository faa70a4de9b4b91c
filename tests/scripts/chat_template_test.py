"""frontends/chat/chat_template.py renders chat templates in the same way as transformers."""

import datetime
import io
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "frontends/chat"))

from chat_template import ChatTemplate, TemplateError, answer, serve  # noqa: E402

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
def test_templates_render_like_transformers(tmp_path, template, text):
    assert render(tmp_path, template, think="yes") == text


TABLE = json.loads((pathlib.Path(__file__).parent / "chat_templates.json").read_text())


@pytest.mark.parametrize("row", TABLE["templates"], ids=lambda row: row["feature"])
def test_supports_features_of_published_templates(tmp_path, row):
    assert render(tmp_path, row["template"], TABLE["messages"]) == row["text"]


def test_tools_select_their_template(tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | length }} tools"}]
    assert render(tmp_path, named) == "plain"
    assert render(tmp_path, named, tools=[{}, {}]) == "2 tools"


def test_files_take_precedence_over_the_config(tmp_path):
    template = ChatTemplate(folder_with(tmp_path, "config"))
    assert template.render(USER) == "config"
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "json"}))
    assert ChatTemplate(tmp_path).render(USER) == "json"
    (tmp_path / "chat_template.jinja").write_text("jinja")
    assert ChatTemplate(tmp_path).render(USER) == "jinja"
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("tools")
    assert ChatTemplate(tmp_path).render(USER, tools=[{}]) == "tools"


def test_a_file_replaces_named_templates(tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "config's tools"}]
    folder_with(tmp_path, named)
    (tmp_path / "chat_template.jinja").write_text("file")
    assert ChatTemplate(tmp_path).render(USER, tools=[{}]) == "file"


@pytest.mark.parametrize(
    "template", [None, "{% for", "{{ raise_exception('roles must alternate') }}", "{{ messages[9].content.x }}", "{{ 1 / 0 }}", [{"name": "x"}]]
)
def test_rendering_raises_template_errors(tmp_path, template):
    loaded = ChatTemplate(folder_with(tmp_path, template))
    with pytest.raises(TemplateError):
        loaded.render(USER)


def test_renders_parts_and_tool_calls(tmp_path):
    template = ChatTemplate(folder_with(tmp_path, "{% for m in messages %}{{ m.content }};{% if m.tool_calls %}"
                                                  "{{ m.tool_calls[0].function.arguments.x }}{% endif %}{% endfor %}"
                                                  "{{ tools | length }}{{ deep }}"))
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 5}'}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": None, "tool_calls": [call]}]
    request = {"messages": messages, "tools": [{}], "chat_template_kwargs": {"deep": "yes"}}
    assert answer(template, request) == "a\nb;None;51yes"
    for wrong in ({}, {"messages": []}, {"messages": [1]}, {"messages": messages, "chat_template_kwargs": 1}):
        with pytest.raises(TemplateError):
            answer(template, wrong)


def test_answers_requests_one_by_one(tmp_path):
    folder_with(tmp_path, "{{ messages[0].content }}")
    bodies = [json.dumps({"messages": [{"role": "user", "content": "é"}]}).encode(), b"{", b"{}"]
    asked = io.BytesIO(b"".join(b"%d\n" % len(body) + body for body in bodies))
    answered = io.BytesIO()
    serve(tmp_path, asked, answered)
    lines, replies = io.BytesIO(answered.getvalue()), []
    while size := lines.readline():
        replies.append(json.loads(lines.read(int(size))))
    assert replies[0] == {"text": "é"}
    assert set(replies[1]) == set(replies[2]) == {"error"}
