"""Common settings of all plots: one style, and reproducible bytes."""

import contextlib
from pathlib import Path

from golden.request import Refused
from training.router.run_folder import write_whole

COLOURS = ("#1f5fa8", "#c8571b", "#2f8a4c", "#8a4fa3", "#7a6a1f", "#b03060")
GREY, GRID, TEXT = "#6b7280", "#e3e6ea", "#20252b"
LOOK = {
    "svg.hashsalt": "moec", "svg.fonttype": "path", "figure.facecolor": "#fbfcfd", "axes.facecolor": "#ffffff",
    "savefig.facecolor": "#fbfcfd", "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.edgecolor": "#9aa3ad", "axes.linewidth": 0.8,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8, "axes.axisbelow": True, "text.color": TEXT,
    "axes.labelcolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT, "axes.spines.top": False,
    "axes.spines.right": False, "legend.frameon": False,
}


def pyplot():
    """matplotlib.pyplot without a window, in this style."""
    try:
        import matplotlib
    except ImportError:
        raise Refused("plots need matplotlib: pip install matplotlib, or use --no-plots") from None
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(LOOK)
    return plt


@contextlib.contextmanager
def picture(path, width, height, **subplots):
    """Yields (figure, axes) of a new figure with sizes in inches, then writes it as SVG without a date."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained", **subplots)
    try:
        yield figure, axes
        write_whole(Path(path), lambda partial: figure.savefig(
            partial, format="svg", metadata={"Date": None, "Creator": None}))
    finally:
        plt.close(figure)
