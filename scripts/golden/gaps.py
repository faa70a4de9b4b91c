"""Measures how far the choices of a run are from changing. Rounding in another order of sums must not change them."""

import math

from golden.routing import choice_of, mixer_reach, routing_of


def routers(steps):
    """Yields (step, prefix of the layer) for each router in each step."""
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                yield step, name.removesuffix("router_logits")


def router_gap(steps):
    """The smallest gap between the last chosen and the next expert, in what they are chosen by; infinite where all are
    chosen."""
    gap = math.inf
    for step, prefix in routers(steps):
        k, choice = step[prefix + "experts"].shape[-1], choice_of(step, prefix)
        if k == choice.shape[-1]:
            continue
        top = choice.topk(k + 1, dim=-1).values
        gap = min(gap, (top[:, k - 1] - top[:, k]).min().item())
    return gap


def order_gap(steps):
    """The smallest gap between neighbours among the chosen experts; infinite where one is chosen."""
    gap = math.inf
    for step, prefix in routers(steps):
        k = step[prefix + "experts"].shape[-1]
        if k == 1:
            continue
        top = choice_of(step, prefix).topk(k, dim=-1).values
        gap = min(gap, (top[:, :-1] - top[:, 1:]).min().item())
    return gap


def mixer_gap(steps, config):
    """The smallest distance of a logit from the limit at which it counts in the mixer; infinite for other routers."""
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
    """The smallest gap of the routers. Gaps of order and of the mixer count four times: a change there moves less."""
    return min(router_gap(steps), order_gap(steps) * 4, mixer_gap(steps, config) * 4)


def label_gap(step, config):
    """The smallest gap of the routers and of the labels, where those of the labels count twice."""
    return min(steps_gap([step], config), token_gap(step["logits"]) * 2)
