"""Plots of an ablation: losses over tokens, the effect of each axis, the load of experts before and after."""

import numpy as np

from training.plots import COLOURS, GREY, picture
from training.router.plots import count_label, loss_curve, mark_phases
from training.upcycling.effects import final_loss
from training.upcycling.grid import AXES

LABELS = {"experts": "experts", "top_k": "top-k", "shared": "shared width", "router": "router"}


def by_variant(runs):
    """Returns {variant: [metrics of its seeds]}."""
    found = {}
    for (variant, _seed), metrics in runs.items():
        found.setdefault(variant, []).append(metrics)
    return found


def mean_curve(seeds, tokens):
    """Returns (tokens, mean loss) over seeds that were measured at the same steps."""
    curves = [loss_curve(metrics, tokens) for metrics in seeds]
    return curves[0][0], np.mean([losses for _, losses in curves], axis=0)


def draw_curves(path, runs, dense, tokens):
    """Draws one panel per router initialisation; a line is a variant's mean over its seeds."""
    variants = by_variant(runs)
    routers = list(dict.fromkeys(variant.router for variant in variants))
    sizes = list(dict.fromkeys((variant.experts, variant.top_k) for variant in variants))
    shared = list(dict.fromkeys(variant.shared for variant in variants))
    with picture(path, 3.1 * len(routers) + 1.7, 3.6, ncols=len(routers), sharey=True, squeeze=False) as (figure, grid):
        for axes, router in zip(grid[0], routers):
            for variant, seeds in variants.items():
                if variant.router != router:
                    continue
                axes.plot(*mean_curve(seeds, tokens), color=COLOURS[sizes.index((variant.experts, variant.top_k))],
                          linestyle=("-", "--", "-.", ":")[shared.index(variant.shared)], linewidth=1.3,
                          label=f"{variant.experts} experts, top-{variant.top_k}, shared {variant.shared}")
            for name, seeds in dense.items():
                axes.plot(*mean_curve(seeds, tokens), color=GREY, linewidth=1.6, label=name,
                          linestyle=":" if name == "dense, all" else (0, (5, 1)))
            mark_phases(axes, next(iter(runs.values())), tokens)
            axes.set(title=f"router {router}", xlabel="tokens after upcycling")
            axes.xaxis.set_major_formatter(count_label)
        grid[0][0].set_ylabel("held-out loss (nats per token)")
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside right center")


def draw_effects(path, runs, dense):
    """Draws, per axis, the final losses of all runs by its value, connected by their means, and a grey line per dense
    model."""
    with picture(path, 7.4, 3.2, ncols=len(AXES), sharey=True) as (figure, grid):
        for axes, axis in zip(grid, AXES):
            values = list(dict.fromkeys(getattr(variant, axis) for variant, _ in runs))
            losses = [[final_loss(m) for (variant, _), m in runs.items() if getattr(variant, axis) == value]
                      for value in values]
            for place, points in enumerate(losses):
                offsets = np.linspace(-0.16, 0.16, len(points)) if len(points) > 1 else [0]
                axes.plot(place + np.array(offsets), points, "o", color=COLOURS[0], alpha=0.35, markersize=3,
                          markeredgewidth=0)
            axes.plot(range(len(values)), [np.mean(points) for points in losses], "o-", color=COLOURS[1], markersize=5,
                      label="mean")
            for (name, seeds), style in zip(dense.items(), ((0, (5, 1)), ":")):
                axes.axhline(np.mean([final_loss(m) for m in seeds]), color=GREY, linestyle=style, label=name)
            axes.set_xticks(range(len(values)), values)
            axes.set(xlabel=LABELS[axis], xlim=(-0.5, len(values) - 0.5))
            axes.grid(axis="x", visible=False)
        grid[0].set_ylabel("held-out loss at the end")
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def draw_use(path, summaries):
    """Draws the worst Gini coefficient and the least used expert of each variant, before and after training. `summaries` is
    {variant: summary}."""
    names = [variant.name for variant in summaries]
    panels = (("gini", "largest Gini coefficient of a layer", 0.3), ("least", "least used expert / even share", 0.2))
    with picture(path, 7.4, 1.2 + 0.2 * len(names), ncols=2, sharey=True) as (figure, grid):
        for axes, (key, label, bar) in zip(grid, panels):
            before = [summary[f"untrained_{key}"] for summary in summaries.values()]
            after = [summary[key] for summary in summaries.values()]
            axes.hlines(range(len(names)), before, after, color=GREY, linewidth=1)
            axes.plot(before, range(len(names)), "o", color="white", markeredgecolor=GREY, markersize=5,
                      label="untrained", clip_on=False)
            axes.plot(after, range(len(names)), "o", color=COLOURS[0], markersize=5, label="trained", clip_on=False)
            axes.axvline(bar, color=COLOURS[1], linewidth=1, linestyle="--", label="bar")
            axes.set(xlabel=label, xlim=(0, None))
            axes.grid(axis="y", visible=False)
        grid[0].set_yticks(range(len(names)), names)
        grid[0].invert_yaxis()
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
