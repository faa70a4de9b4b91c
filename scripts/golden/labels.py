"""Token classification: its families, and BIOES labels: outside (O), or the begin, an inside token, the end or the single
token of a span of a class."""

TAGGERS = ("openai_privacy_filter",)  # families that label tokens instead of generating text


def labels_of(classes):
    return ["O", *(f"{tag}-{name}" for name in classes for tag in "BIES")]


def label_maps(labels):
    """id2label and label2id of a configuration."""
    return {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}
