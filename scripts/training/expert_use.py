"""Measures of the load balance of a layer's experts. Requires only numpy."""

import numpy as np


def gini(use):
    """The Gini coefficient of each layer's shares [layers, experts]; 0 for equal shares."""
    ranked, n = np.sort(use, axis=1), use.shape[1]
    return ((2 * np.arange(1, n + 1) - n - 1) * ranked).sum(1) / (n * ranked.sum(1))


def entropy(use):
    """The entropy of each layer's shares [layers, experts], relative to that of an even load: 1 for equal shares, 0 if one
    expert gets all tokens."""
    share = use / use.sum(1, keepdims=True)
    terms = np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0)
    return -terms.sum(1) / np.log(use.shape[1])


def capacity_of(slots, experts, factor):
    """The maximum number of slots of an expert in a batch: its even share times the factor, rounded up (GShard,
    arXiv:2006.16668). A small tolerance compensates rounding of products such as 1.1 * 10."""
    return int(np.ceil(factor * slots / experts - 1e-9))


def drop_rate(batches, factor):
    """The share of each layer's (token, slot) pairs that experts with limited capacity would drop. `batches` has counts per
    batch, [batches, layers, experts], because the capacity is a limit per batch."""
    slots = batches.sum(2)
    kept = sum(np.minimum(counts, capacity_of(counts[0].sum(), counts.shape[1], factor)).sum(1) for counts in batches)
    return 1 - kept / slots.sum(0)


def describe(batches, factor):
    """Measures per layer, computed from counts [batches, layers, experts]: `share` per expert, `gini`, `entropy`, `least`
    (the least used expert's share relative to the even one) and `drop_rate`."""
    batches = np.asarray(batches, np.float64)
    counts = batches.sum(0)
    if counts.ndim != 2 or counts.shape[1] < 2 or not (counts.sum(1) > 0).all():
        raise ValueError(f"counts have the shape {batches.shape} instead of [batches, layers, experts] with at least two experts")
    share = counts / counts.sum(1, keepdims=True)
    return {
        "share": rounded(share), "gini": rounded(gini(share)), "entropy": rounded(entropy(share)),
        "least": rounded(share.min(1) * share.shape[1]), "drop_rate": rounded(drop_rate(batches, factor)),
    }


def rounded(values):
    return np.round(values, 4).tolist()
