"""How evenly a layer's tokens are spread over its experts. Needs numpy alone."""

import numpy as np


def gini(use):
    """The Gini coefficient of each layer's shares [layers, experts]; 0 where all are equal."""
    ranked, n = np.sort(use, axis=1), use.shape[1]
    return ((2 * np.arange(1, n + 1) - n - 1) * ranked).sum(1) / (n * ranked.sum(1))
