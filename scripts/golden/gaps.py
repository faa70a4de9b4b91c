"""How far the choices of a run are from changing: other sums' last bits must not decide a golden."""

import math

from golden.routing import choice_of, mixer_reach, routing_of


def routers(steps):
    """(step, prefix of the layer) of each router in each step."""
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                yield step, name.removesuffix("router_logits")


def router_gap(steps, k):
    """Smallest gap between what the k-th and the next expert are chosen by."""
    gap = math.inf
    for step, prefix in routers(steps):
        top = choice_of(step, prefix).topk(k + 1, dim=-1).values
        gap = min(gap, (top[:, k - 1] - top[:, k]).min().item())
    return gap


def order_gap(steps, k):
    """Smallest gap between neighbours among the chosen experts."""
    gap = math.inf
    if k == 1:
        return gap
    for step, prefix in routers(steps):
        top = choice_of(step, prefix).topk(k, dim=-1).values
        gap = min(gap, (top[:, :-1] - top[:, 1:]).min().item())
    return gap


def mixer_gap(steps, config):
    """Smallest distance of a logit from where it begins to count in the mixer."""
    gap = math.inf
    if routing_of(config)["score"] != "mixer":
        return gap
    for step, prefix in routers(steps):
        reach = mixer_reach(step[prefix + "router_logits"], step[prefix + "experts"], config.router_jitter_noise)
        gap = min(gap, reach.abs().min().item())
    return gap


def token_gap(logits):
    """Smallest gap between the largest and the next logit of a row."""
    top = logits.topk(2, dim=-1).values
    return (top[:, 0] - top[:, 1]).min().item()


def steps_gap(steps, config):
    """The smallest gap of the routers, and of the lesser choices by as much more as these may be closer."""
    k = config.num_experts_per_tok
    return min(router_gap(steps, k), order_gap(steps, k) * 4, mixer_gap(steps, config) * 4)


def label_gap(step, config):
    """The smallest gap of its routers, and of its labels by twice as much."""
    return min(steps_gap([step], config), token_gap(step["logits"]) * 2)
