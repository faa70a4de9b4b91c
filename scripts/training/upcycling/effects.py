"""Results of an ablation: means over seeds, and the effect of each axis in pairs of runs that differ only in that
axis."""

import statistics

from training.router.summary import last, phase_end, worst_use
from training.upcycling.grid import AXES

TRAINED = ("untrained", "router", "experts")


def final_loss(metrics):
    return last(metrics)["loss"]["mean"]


def loss_after(metrics, phase):
    """Returns the held-out loss at the end of a phase; None if there is no such phase."""
    measured = phase_end(metrics, phase)
    return None if measured is None else measured["loss"]["mean"]


def summary_of(seeds):
    """Returns a variant's figures over `seeds`, a list of metrics: mean losses, the worst use over layers and seeds,
    and per phase the number of seeds with a loss below the untrained router's."""
    gini, least = zip(*(worst_use(last(metrics)) for metrics in seeds))
    losses = {phase: [loss_after(metrics, phase) for metrics in seeds] for phase in TRAINED
              if loss_after(seeds[0], phase) is not None}
    return {
        "seeds": len(seeds), "loss": {phase: mean(values) for phase, values in losses.items()},
        "spread": round(max(map(final_loss, seeds)) - min(map(final_loss, seeds)), 5),
        "better_than_untrained": {phase: sum(a < b for a, b in zip(values, losses["untrained"]))
                                  for phase, values in losses.items() if phase != "untrained"},
        "untrained_gini": round(max(worst_use(metrics["measured"][0])[0] for metrics in seeds), 4),
        "untrained_least": round(min(worst_use(metrics["measured"][0])[1] for metrics in seeds), 4),
        "gini": max(gini), "least": min(least),
        "drop_rate": max(max(last(metrics)["use"]["drop_rate"]) for metrics in seeds),
        "parameters": seeds[0]["measured"][0]["parameters"],
        "active_parameters": seeds[0]["measured"][0]["active_parameters"],
    }


def mean(numbers):
    return round(statistics.fmean(numbers), 5)


def pairs_of(runs, axis):
    """Returns {(value, other value): [(loss, other loss), …]} for `runs` {(variant, seed): metrics} that differ only in
    this axis. Values are in the order of the runs, the first of each axis before all others."""
    found = {}
    order = list(dict.fromkeys(getattr(variant, axis) for variant, _ in runs))
    by_rest = {}
    for (variant, seed), metrics in runs.items():
        rest = seed, *(getattr(variant, other) for other in AXES if other != axis)
        by_rest.setdefault(rest, {})[getattr(variant, axis)] = final_loss(metrics)
    for losses in by_rest.values():
        for other in order[1:]:
            if order[0] in losses and other in losses:
                found.setdefault((order[0], other), []).append((losses[order[0]], losses[other]))
    return found


def effects_of(runs):
    """Returns [{axis, from, to, pairs, mean change of the loss, number of pairs in which the loss falls}]."""
    return [{"axis": axis, "from": a, "to": b, "pairs": len(losses),
             "change": mean([after - before for before, after in losses]),
             "lower": sum(after < before for before, after in losses)}
            for axis in AXES for (a, b), losses in pairs_of(runs, axis).items()]
