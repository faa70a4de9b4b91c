"""BIOES labels: outside (O), or begin, inside, end and single token of a span of a class."""


def labels_of(classes):
    return ["O", *(f"{tag}-{name}" for name in classes for tag in "BIES")]


def label_maps(labels):
    """As a configuration holds them."""
    return {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}
