"""Tables in Markdown."""


def row_of(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table_of(heads, rows):
    return [row_of(*heads), "|" + "---|" * len(heads), *(row_of(*cells) for cells in rows)]
