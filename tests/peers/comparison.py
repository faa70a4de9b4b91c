"""Compares tensors and records the worst result of several comparisons."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Comparison:
    """The result of one comparison, or the worst values of several."""

    cosine: float = 1.0
    relative_l2: float = 0.0
    largest_difference: float = 0.0
    comparisons: int = 0

    def add(self, other):
        self.cosine = min(self.cosine, other.cosine)
        self.relative_l2 = max(self.relative_l2, other.relative_l2)
        self.largest_difference = max(self.largest_difference, other.largest_difference)
        self.comparisons += other.comparisons

    def __str__(self):
        return (f"{self.comparisons} comparisons, 1 - cosine <= {1 - self.cosine:.1e}, "
                f"relative L2 <= {self.relative_l2:.1e}, "
                f"difference <= {self.largest_difference:.1e}")


def compare(got, wanted):
    """Compares two tensors of the same shape in f64. `wanted` must have a nonzero element."""
    got, wanted = (np.asarray(values, np.float64).ravel() for values in (got, wanted))
    assert got.shape == wanted.shape and wanted.any()
    norm, difference = np.linalg.norm(wanted), got - wanted
    return Comparison(
        cosine=float(got @ wanted / max(np.linalg.norm(got) * norm, 1e-300)),
        relative_l2=float(np.linalg.norm(difference) / norm),
        largest_difference=float(np.abs(difference).max()),
        comparisons=1)
