"""Cuts tinytagger's training texts into batches with labels."""

import numpy as np
import torch

from training.tinytagger.sentences import CLASSES

SEQ = 144
KEPT = 20       # held-out texts in heldout.json
IGNORED = -100  # label that the loss ignores


def label_ids(length, spans):
    ids = np.zeros(length, np.int64)
    for s in spans:
        first = 1 + 4 * CLASSES.index(s["label"])
        ids[s["start"]:s["end"]] = first + 1
        ids[s["start"]], ids[s["end"] - 1] = first, first + 2
        if s["end"] - s["start"] == 1:
            ids[s["start"]] = first + 3
    return ids


def batch_of(words, size):
    """Bytes and labels of random windows of longer texts. The loss ignores spans that a window cuts."""
    xs, ys = [], []
    for _ in range(size):
        text, spans = words.document(SEQ + 120)
        cut = words.r.randint(0, len(text) - SEQ)
        labels = label_ids(len(text), spans)
        for s in spans:
            if s["start"] < cut < s["end"] or s["start"] < cut + SEQ < s["end"]:
                labels[s["start"]:s["end"]] = IGNORED
        xs.append(np.frombuffer(text[cut:cut + SEQ].encode(), np.uint8).astype(np.int64))
        ys.append(labels[cut:cut + SEQ])
    return torch.from_numpy(np.stack(xs)), torch.from_numpy(np.stack(ys))
