"""Measures how far the choices of a run are from changing. Rounding in another order of sums must not change them."""

import math

from golden.routing import choice_of, mixer_reach, routing_of


def picks_of(config):
    """How many experts a token takes; 0 in a model without experts."""
    return getattr(config, "num_experts_per_tok", 0)


def routers(steps):
    """Yields (step, prefix of the layer) for each router in each step."""
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                yield step, name.removesuffix("router_logits")


def router_gap(steps, k):
    """The smallest gap between the k-th and the next expert, in what they are chosen by."""
    gap = math.inf
    for step, prefix in routers(steps):
        top = choice_of(step, prefix).topk(k + 1, dim=-1).values
        gap = min(gap, (top[:, k - 1] - top[:, k]).min().item())
    return gap


def order_gap(steps, k):
    """The smallest gap between neighbours among the k chosen experts; infinite for k = 1."""
    gap = math.inf
    if k == 1:
        return gap
    for step, prefix in routers(steps):
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
    k = picks_of(config)
    return min(router_gap(steps, k), order_gap(steps, k) * 4, mixer_gap(steps, config) * 4)


def label_gap(step, config):
    """The smallest gap of the routers and of the labels, where those of the labels count twice."""
    return min(steps_gap([step], config), token_gap(step["logits"]) * 2)
