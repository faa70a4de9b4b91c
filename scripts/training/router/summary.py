"""Evaluates the metrics of a router training, and formats them as a table. Does not require torch."""

import statistics

from training.tables import table_of

MOST_GINI, LEAST_USE = 0.3, 0.2  # per layer; LEAST_USE is relative to the even share


def last(metrics):
    """The last measurement: of the stored weights, if there are any."""
    return metrics.get("stored") or metrics["measured"][-1]


def worst_use(measured):
    """Returns (largest Gini, smallest use relative to the even share) over the layers."""
    return max(measured["use"]["gini"]), min(measured["use"]["least"])


def verdict(metrics):
    """Returns {criterion: True if met} of one seed."""
    gini, least = worst_use(last(metrics))
    return {
        f"gini below {MOST_GINI}": gini < MOST_GINI,
        f"every expert above {LEAST_USE} of the even share": least > LEAST_USE,
        "loss below the untrained router's": last(metrics)["loss"]["mean"] < metrics["measured"][0]["loss"]["mean"],
    }


def phase_end(metrics, name):
    """The last measurement of a phase, or None."""
    of_phase = [measured for measured in metrics["measured"] if measured["phase"] == name]
    return of_phase[-1] if of_phase else None


def row(label, measured):
    """Cells of one measurement: loss, and the worst router measures over the layers."""
    cells = [label, f"{measured['loss']['mean']:.4f}"]
    if "use" not in measured:
        return [*cells, "", "", "", ""]
    gini, least = worst_use(measured)
    return [*cells, f"{gini:.3f}", f"{least:.2f}", f"{min(measured['use']['entropy']):.3f}",
            f"{100 * max(measured['use']['drop_rate']):.1f} %"]


def seed_rows(name, metrics):
    """One row for the start, and one per end of a phase."""
    phases = dict.fromkeys(measured["phase"] for measured in metrics["measured"])
    return [row(f"{name}, {phase}", phase_end(metrics, phase)) for phase in phases]


def table(seeds, dense=()):
    """Markdown table of {name: metrics} of the seeds and of the dense models."""
    heads = ("model", "loss", "Gini", "least used", "entropy", "dropped")
    rows = [r for name, metrics in [*seeds.items(), *dict(dense).items()] for r in seed_rows(name, metrics)]
    return "\n".join(table_of(heads, rows))


def mean_loss(all_metrics):
    return statistics.fmean(last(metrics)["loss"]["mean"] for metrics in all_metrics)
