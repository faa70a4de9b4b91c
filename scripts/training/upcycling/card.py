"""The figures of an ablation as Markdown."""

from training.router.summary import last
from training.tables import table_of
from training.upcycling.grid import ARCH, DENSE


def facts(report):
    asked, dense = report["request"], report["dense_model"]
    settings, first = asked["settings"], asked["phases"][0]
    tokens = settings["batch"] * settings["length"]
    steps = {phase["name"]: phase["steps"] for phase in asked["phases"]}
    return [
        f"- Dense model: a Llama of {dense['parameters']:,} parameters whose tokens are bytes: "
        f"{DENSE['num_hidden_layers']} layers, hidden {DENSE['hidden_size']}, feed-forward {DENSE['intermediate_size']}; "
        f"trained for {asked['dense_steps'] * tokens:,} tokens to a held-out loss of {dense['loss']:.4f} nats per byte.",
        f"- Upcycled to `{ARCH}`: `--granularity {asked['granularity']} --init {asked['init']} --noise {asked['noise']}`, "
        f"seeds {', '.join(map(str, asked['seeds']))} of `moec upcycle` and of the batches.",
        f"- Phase 1, the routers alone: {steps['router'] * tokens:,} tokens at {first['rate']:g}; phase 2, experts and "
        f"routers: {steps['experts'] * tokens:,} tokens at {asked['phases'][1]['rate']:g}; balance loss x "
        f"{settings['balance']:g}, z-loss x {settings['z']:g}.",
        "- Text: generated arithmetic, JSON records and made-up sentences, a third each; the held-out text is generated "
        f"with other seeds ({settings['held_batches'] * tokens:,} bytes of each).",
        f"- Versions: torch {report['versions']['torch']}, transformers {report['versions']['transformers']}, Python "
        f"{report['versions']['python']}.",
        f"- Command, after the release build: `{report['command']}`",
    ]


def variants_table(report):
    heads = ("experts", "top-k", "shared", "router", "used parameters", "untrained", "after phase 1", "after phase 2",
             "spread", "lower after 1 / 2", "Gini", "least used", "dropped")
    rows = []
    for entry in report["variants"]:
        summary = entry["summary"]
        loss, better = summary["loss"], summary["better_than_untrained"]
        rows.append((entry["experts"], entry["top_k"], entry["shared"], f"`{entry['router']}`",
                     f"{summary['active_parameters']:,}", *(f"{loss[phase]:.4f}" for phase in loss),
                     f"{summary['spread']:.4f}", " / ".join(f"{count} of {summary['seeds']}" for count in better.values()),
                     f"{summary['untrained_gini']:.2f} → {summary['gini']:.2f}",
                     f"{summary['untrained_least']:.2f} → {summary['least']:.2f}", f"{100 * summary['drop_rate']:.1f} %"))
    for entry in report["dense"]:
        rows.append(("–", "–", "–", entry["name"], f"{report['dense_model']['parameters']:,}",
                     f"{report['dense_model']['loss']:.4f}", "", f"{entry['loss']:.4f}", f"{entry['spread']:.4f}", "", "",
                     "", ""))
    return table_of(heads, rows)


def effects_table(report):
    rows = [(effect["axis"].replace("_", "-"), f"{effect['from']} → {effect['to']}", f"{effect['change']:+.4f}",
             f"{effect['lower']} of {effect['pairs']}") for effect in report["effects"]]
    return table_of(("axis", "change", "mean change of the final loss", "lower in"), rows)


def card(report):
    """The lines between the marks of models/upcycling/README.md."""
    return "\n".join([
        *facts(report), "",
        "Losses are means over the seeds, in nats per byte of held-out text; `spread` is the range of the seeds' final losses. "
        "`lower` counts the seeds whose loss is below that of their untrained router, after each phase. The last "
        "three columns are the worst of all layers and seeds: Gini coefficient and least used expert (relative to "
        "the even share), each before → after training, and `dropped`, the share that a capacity of "
        f"{report['request']['settings']['capacity']:g} would drop (training drops nothing). The dense rows are the "
        "same dense model trained further on the same batches: only its feed-forward parts, as in phase 2, or all "
        "weights.", "",
        *variants_table(report), "",
        "![Held-out loss over tokens](curves.svg)", "",
        "![Use of experts before and after](use.svg)", "",
        "Effect of each axis, over pairs of runs that differ only in that axis:", "",
        *effects_table(report), "",
        "![Final loss by axis](effects.svg)",
    ]) + "\n"


def dense_row(name, seeds):
    losses = [last(metrics)["loss"]["mean"] for metrics in seeds]
    return {"name": name, "loss": round(sum(losses) / len(losses), 5), "spread": round(max(losses) - min(losses), 5)}
