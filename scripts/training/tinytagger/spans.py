"""Finds the spans of a text, in bytes, by the best legal sequence of BIOES tags, and scores them."""

import numpy as np
import torch

from golden.labels import labels_of
from training.tinytagger.sentences import CLASSES

LABELS = labels_of(CLASSES)


def legal(before, after):
    """True if a tag may follow another. None represents the start and the end of the text."""
    inside = before is not None and before[0] in "BI"
    if after is None:
        return not inside
    if inside:
        return after[0] in "IE" and after[2:] == before[2:]
    return after[0] in "OBS"


def best_labels(log_probabilities):
    """The label ids of the legal sequence with the largest sum of log probabilities."""
    scores = log_probabilities.double().numpy()
    steps = np.array([[0.0 if legal(a, b) else -np.inf for b in LABELS] for a in LABELS])
    total = scores[0] + [0.0 if legal(None, b) else -np.inf for b in LABELS]
    back = []
    for row in scores[1:]:
        ways = total[:, None] + steps
        back.append(ways.argmax(0))
        total = ways.max(0) + row
    total = total + [0.0 if legal(a, None) else -np.inf for a in LABELS]
    ids = [int(total.argmax())]
    for way in reversed(back):
        ids.append(int(way[ids[-1]]))
    return ids[::-1]


def spans_of(ids):
    spans, start = [], 0
    for i, label in enumerate(LABELS[j] for j in ids):
        if label[0] in "BS":
            start = i
        if label[0] in "ES":
            spans.append({"start": start, "end": i + 1, "label": label[2:]})
    return spans


@torch.no_grad()
def find_spans(model, text):
    logits = model(torch.tensor([list(text.encode())])).logits[0]
    return spans_of(best_labels(logits.log_softmax(-1)))


def f1_of(texts):
    """Counts and F1 over (text, true spans, found spans). A span is correct if both ends and the label are."""
    def key(span):
        return span["start"], span["end"], span["label"]

    right = sum(len({key(s) for s in true} & {key(s) for s in found}) for _, true, found in texts)
    true, found = (sum(len(text[i]) for text in texts) for i in (1, 2))
    return {"spans": true, "found": found, "right": right, "f1": round(2 * right / max(true + found, 1), 4)}
