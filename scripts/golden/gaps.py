"""Measures how close a run is to other picks. Rounding in another summation order must not change the picks."""

import math

from golden.routing import choice_of, mixer_reach, routing_of


def routers(steps):
    """Yields (step, prefix of the layer) for each router in each step."""
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                yield step, name.removesuffix("router_logits")


def router_gap(steps):
    """The smallest gap between the selection scores of the last picked and the next expert; infinite if all are picked."""
    gap = math.inf
    for step, prefix in routers(steps):
        k, choice = step[prefix + "experts"].shape[-1], choice_of(step, prefix)
        if k == choice.shape[-1]:
            continue
        top = choice.topk(k + 1, dim=-1).values
        gap = min(gap, (top[:, k - 1] - top[:, k]).min().item())
    return gap


def order_gap(steps):
    """The smallest gap between neighbours among the picked experts; infinite if one is picked."""
    gap = math.inf
    for step, prefix in routers(steps):
        k = step[prefix + "experts"].shape[-1]
        if k == 1:
            continue
        top = choice_of(step, prefix).topk(k, dim=-1).values
        gap = min(gap, (top[:, :-1] - top[:, 1:]).min().item())
    return gap


def mixer_gap(steps, config):
    """The smallest distance of a logit from the threshold of the sparsemixer; infinite for other routers."""
    gap = math.inf
    for step, prefix in routers(steps):
        if routing_of(config)["score"] != "mixer":
            break
        reach = mixer_reach(step[prefix + "router_logits"], step[prefix + "experts"], config.router_jitter_noise)
        gap = min(gap, reach.abs().min().item())
    return gap


def token_gap(logits):
    """The smallest gap between the two largest logits of a row."""
    top = logits.topk(2, dim=-1).values
    return (top[:, 0] - top[:, 1]).min().item()


def steps_gap(steps, config):
    """Returns the smallest gap of the routers. Gaps of order and of the sparsemixer are multiplied by four, because a
    change there has a smaller effect."""
    return min(router_gap(steps), order_gap(steps) * 4, mixer_gap(steps, config) * 4)


def label_gap(step, config):
    """Returns the smallest gap of the routers and of the labels. Gaps of labels are doubled."""
    return min(steps_gap([step], config), token_gap(step["logits"]) * 2)
