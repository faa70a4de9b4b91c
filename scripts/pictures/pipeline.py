"""Draws the path of a checkpoint through the compiler, with the ops and passes of each form from the sources."""

import re

from pictures import svg

FORMS = ["model", "lowered", "static", "placed"]
# Guarantees of each form.
PROMISES = {
    "model": ["the layer as written,", "in composite ops"],
    "lowered": ["projections are the", "last composite op"],
    "static": ["only tensor math", "and shape ops"],
    "placed": ["the target's rules", "accept every op"],
}
OP = re.compile(r"^MOEC_OP\(\w+, (\w+), (\w+),", re.MULTILINE)
PASS = re.compile(r'\{"(\w+)",\s*\w+,\s*k(\w+),\s*k(\w+),')
MARGIN, WIDTH, COLUMN, GAP, LINE = 28, 960, 196, 40, 16
PLAN_Y, FORMS_Y = 84, 196


def ops_by_form(source):
    """Maps each form to the ops for which it is the last legal form, from ir/graph/ops.def."""
    return {form: [op for op, last in OP.findall(source) if last == form] for form in FORMS}


def passes_by_form(source):
    """Maps each form to the passes that accept it, from passes/pipeline.cc, in pipeline order: the pipeline is listed
    after the table of all passes."""
    passes = sorted(PASS.findall(source), key=lambda found: source.rindex(f'"{found[0]}"'))
    return {form: [name for name, begin, _ in passes if begin.lower() == form] for form in FORMS}


def column(index):
    return MARGIN + index * (COLUMN + GAP)


def card(picture, x, y, width, height, colors, title, lines):
    picture.box(x, y, width, height, colors)
    picture.text(x + 12, y + 22, title, 14, anchor="start", bold=True)
    for index, words in enumerate(lines):
        picture.text(x + 12, y + 42 + LINE * index, words, 12, svg.FAINT, "start")


def draw_inputs(picture):
    card(picture, column(0), PLAN_Y, COLUMN, 72, svg.GREY, "Checkpoint",
         ["config.json, safetensors,", "tokenizer files"])  # fmt: skip
    card(picture, column(1), PLAN_Y, COLUMN, 72, svg.GREY, "Model",
         ["a family descriptor reads", "config and tensor names"])  # fmt: skip
    card(picture, column(2), PLAN_Y, 2 * COLUMN + GAP, 72, svg.GREY, "Plan",
         ["layers and groups of experts, cut into shards by budget;",
          "schedule, devices, sizes. No weights needed."])  # fmt: skip
    for index in (0, 1):
        picture.path([(column(index) + COLUMN, PLAN_Y + 36), (column(index + 1) - 2, PLAN_Y + 36)])


def draw_names(picture, x, y, heading, names, columns):
    """Draws a heading and names below it, in columns; returns the y below them."""
    picture.text(x, y, heading, 11, svg.FAINT, "start")
    high = rows(names, columns)
    for index, name in enumerate(names):
        at = x + 8 + 84 * (index // high), y + LINE * (index % high + 1)
        picture.text(*at, name, 12, anchor="start", mono=True)
    return y + LINE * high + 24


def rows(names, columns):
    return -(-len(names) // columns)


def lists_of(form, ops, passes):
    """Lists in a form's box: (heading, names, columns)."""
    placed = form == "placed"
    lists = [("ops of the emitted files" if placed else "ops to lower", ops[form], 2 if placed else 1),
             ("passes", passes[form], 1)]  # fmt: skip
    return [entry for entry in lists if entry[1]]


def draw_form(picture, index, height, lists):
    form, x = FORMS[index], column(index)
    picture.box(x, FORMS_Y, COLUMN, height, svg.ORANGE if form == "placed" else svg.BLUE)
    picture.text(x + 12, FORMS_Y + 24, form, 15, anchor="start", bold=True, mono=True)
    for line, words in enumerate(PROMISES[form]):
        picture.text(x + 12, FORMS_Y + 44 + LINE * line, words, 12, anchor="start")
    y = FORMS_Y + 84
    for heading, names, columns in lists:
        y = draw_names(picture, x + 12, y, heading, names, columns)
    if index:
        picture.path([(x - GAP, FORMS_Y + 20), (x - 2, FORMS_Y + 20)])


def form_height(lists_by_form):
    """Height of the highest column."""
    return 78 + max(
        sum(24 + LINE * rows(names, columns) for _, names, columns in lists) for lists in lists_by_form
    )


def draw_outputs(picture, y):
    wide = 2 * COLUMN + GAP
    card(picture, column(2), y, wide, 72, svg.PURPLE, "Shards and manifest",
         ["ONNX graphs or Core ML packages, weights streamed in tiles;",
          "manifest: schedule, digests, expert ranges"])  # fmt: skip
    card(picture, column(0), y, wide, 72, svg.GREEN, "Proof",
         ["moec check: digests, each expert exactly once, target rules",
          "moec validate: the files, read back and run, against PyTorch"])  # fmt: skip
    picture.path([(column(2), y + 36), (column(0) + wide + 2, y + 36)])


def draw(ops_source, pipeline_source):
    """Draws the picture from the texts of ir/graph/ops.def and passes/pipeline.cc."""
    ops, passes = ops_by_form(ops_source), passes_by_form(pipeline_source)
    lists = [lists_of(form, ops, passes) for form in FORMS]
    height = form_height(lists)
    end = FORMS_Y + height + 36
    picture = svg.Picture(WIDTH, end + 72 + 24, "From a checkpoint to proven shards")
    picture.text(MARGIN, 34, "From a checkpoint to proven shards", 17, anchor="start", bold=True)
    picture.text(MARGIN, 56, "Each shard goes through four forms. The verifier checks its form after every pass.",
                 12.5, svg.FAINT, "start")  # fmt: skip
    draw_inputs(picture)
    begin, end_x, between = column(2) + COLUMN + GAP / 2, column(0) + COLUMN / 2, PLAN_Y + 90
    picture.path([(begin, PLAN_Y + 72), (begin, between), (end_x, between), (end_x, FORMS_Y - 2)])
    for index in range(len(FORMS)):
        draw_form(picture, index, height, lists[index])
    picture.path([(column(3) + COLUMN / 2, FORMS_Y + height), (column(3) + COLUMN / 2, end - 2)])
    draw_outputs(picture, end)
    return picture
