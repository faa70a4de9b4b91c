"""Plots of a router training: losses per seed, and load of the experts per layer."""

import numpy as np

from training.plots import COLOURS, GREY, picture
from training.router.summary import last

EVEN_AT_MOST = 3  # upper end of the colour scale, as a multiple of the even share


def count_label(value, _place=None):
    """Formats 300000 as 300k."""
    return next((f"{value / size:g}{letter}" for size, letter in ((1e6, "M"), (1e3, "k")) if value >= size), f"{value:g}")


def loss_curve(metrics, tokens):
    """Returns (tokens seen, held-out loss) per measurement."""
    measured = metrics["measured"]
    return [m["step"] * tokens for m in measured], [m["loss"]["mean"] for m in measured]


def phase_ends(metrics):
    """The last step of each phase except the last phase."""
    measured = metrics["measured"]
    return [a["step"] for a, b in zip(measured[1:], measured[2:]) if a["phase"] != b["phase"]]


def mark_phases(axes, metrics, tokens):
    """Draws a line at the beginning of phase 2."""
    for step in phase_ends(metrics):
        axes.axvline(step * tokens, color=GREY, linewidth=0.8)
        axes.annotate("experts too", (step * tokens, 1), xycoords=("data", "axes fraction"), fontsize=8,
                      xytext=(4, -2), textcoords="offset points", va="top", color=GREY)


def draw_curves(path, seeds, dense, tokens):
    """Plots held-out loss over tokens. `seeds` and `dense` are {name: metrics}; `tokens` is the number per step."""
    with picture(path, 6.4, 3.6) as (_figure, axes):
        for colour, (name, metrics) in zip(COLOURS, seeds.items()):
            axes.plot(*loss_curve(metrics, tokens), color=colour, marker="o", markersize=3, label=name)
        for style, (name, metrics) in zip(("--", ":", "-."), dense.items()):
            axes.plot(*loss_curve(metrics, tokens), color=GREY, linestyle=style, label=name)
        mark_phases(axes, next(iter(seeds.values())), tokens)
        axes.set_xlabel("tokens of this training")
        axes.set_ylabel("held-out loss (nats per token)")
        axes.xaxis.set_major_formatter(count_label)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def relative_use(measured):
    """Returns shares relative to the even share, [layers, experts]."""
    share = np.array(measured["use"]["share"])
    return share * share.shape[1]


def draw_use(path, seeds):
    """Draws two maps of layers and experts per seed: before and after training."""
    sides = [np.concatenate([relative_use(pick(metrics)) for metrics in seeds.values()])
             for pick in (lambda metrics: metrics["measured"][0], last)]
    layers = len(relative_use(last(next(iter(seeds.values())))))
    rows, experts = sides[0].shape
    size = (2.6 + 0.26 * experts + 1.2, 1.1 + 0.24 * rows)
    with picture(path, *np.maximum(size, (5.6, 2.4)), ncols=2, sharey=True) as (figure, axes):
        for ax, side, title in zip(axes, sides, ("untrained", "trained")):
            shown = ax.imshow(side, cmap="RdBu_r", vmin=2 - EVEN_AT_MOST, vmax=EVEN_AT_MOST, aspect="auto")
            ax.set(title=title, xlabel="expert", xticks=range(0, experts, max(1, experts // 8)))
            ax.grid(False)
            for edge in range(layers, rows, layers):
                ax.axhline(edge - 0.5, color="white", linewidth=2)
        axes[0].set_yticks(range(rows), [f"{name}, layer {i}" for name in seeds for i in range(layers)])
        bar = figure.colorbar(shown, ax=axes, label="share relative to the even one", ticks=range(EVEN_AT_MOST + 1))
        bar.ax.set_ylim(0, EVEN_AT_MOST)
