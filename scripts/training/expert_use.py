"""How evenly a layer's tokens are spread over its experts. Needs numpy alone."""

import numpy as np


def gini(use):
    """The Gini coefficient of each layer's shares [layers, experts]; 0 where all are equal."""
    ranked, n = np.sort(use, axis=1), use.shape[1]
    return ((2 * np.arange(1, n + 1) - n - 1) * ranked).sum(1) / (n * ranked.sum(1))


def entropy(use):
    """The entropy of each layer's shares [layers, experts], relative to that of an even use: 1 where all are equal, 0
    where one expert gets every token."""
    share = use / use.sum(1, keepdims=True)
    terms = np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0)
    return -terms.sum(1) / np.log(use.shape[1])


def capacity_of(slots, experts, factor):
    """The most slots that an expert takes of a batch: its even share times the factor, rounded up (GShard,
    arXiv:2006.16668). A small slack keeps a product as 1.1 * 10 from passing the whole number that it stands for."""
    return int(np.ceil(factor * slots / experts - 1e-9))


def drop_rate(batches, factor):
    """The share of each layer's (token, slot) pairs that experts of limited capacity would drop. `batches` has the
    counts of each batch by itself, [batches, layers, experts]: capacity is a limit on a batch."""
    slots = batches.sum(2)
    kept = sum(np.minimum(counts, capacity_of(counts[0].sum(), counts.shape[1], factor)).sum(1) for counts in batches)
    return 1 - kept / slots.sum(0)


def describe(batches, factor):
    """The measures of use of each layer, of the counts [batches, layers, experts]: `share` of each expert, `gini`,
    `entropy`, `least` (the least used expert's share relative to the even one) and `drop_rate`."""
    batches = np.asarray(batches, np.float64)
    counts = batches.sum(0)
    if counts.ndim != 2 or counts.shape[1] < 2 or not (counts.sum(1) > 0).all():
        raise ValueError(f"counts of shape {batches.shape} are no [batches, layers, experts] of two experts or more")
    share = counts / counts.sum(1, keepdims=True)
    return {
        "share": rounded(share), "gini": rounded(gini(share)), "entropy": rounded(entropy(share)),
        "least": rounded(share.min(1) * share.shape[1]), "drop_rate": rounded(drop_rate(batches, factor)),
    }


def rounded(values):
    return np.round(values, 4).tolist()
