"""Recomputes the picked experts and their weights, and compares them with the reference's."""

import math

import torch

# Routers by family. score: the score function; renorm: divide the weights of picked experts by their sum (None: the
# config's norm_topk_prob); scale: config key of a factor on the weights; group_score: "max" if groups are ranked by
# their best expert instead of the sum of their best two. The score "selected" is a softmax over the picked logits only,
# and "mixer" is Phi's sparsemixer. llama4 picks by the logits, whose sigmoid has the same order. choice: "logits" if the
# bias is added to the logits instead of the scores.
ROUTING = {
    "mixtral": dict(score="softmax", renorm=True),
    "qwen2_moe": dict(score="softmax", renorm=None),
    "qwen3_moe": dict(score="softmax", renorm=None),
    "mellum": dict(score="softmax", renorm=None),
    "olmoe": dict(score="softmax", renorm=None),
    "granitemoe": dict(score="selected"),
    "granitemoeshared": dict(score="selected"),
    "granitemoehybrid": dict(score="selected"),
    "nemotron_h": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "glm4_moe": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "minimax_m2": dict(score="sigmoid", renorm=True),
    "minimax_m3_vl_text": dict(score="sigmoid", renorm=True, scale="routed_scaling_factor"),
    "ernie4_5_moe": dict(score="softmax", renorm=True),
    "ernie4_5_vl_moe_text": dict(score="softmax", renorm=True),
    "glm4_moe_lite": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "deepseek_v2": dict(score="softmax", renorm=False, scale="routed_scaling_factor", group_score="max"),
    "deepseek_v3": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "sarvam_mla": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "deepseek_v32": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "glm_moe_dsa": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "glm4v_moe_text": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "exaone_moe": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "dots1": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "solar_open": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "hy_v3": dict(score="sigmoid", renorm=True, scale="router_scaling_factor"),
    "qwen3_vl_moe_text": dict(score="softmax", renorm=True),
    "hunyuan_v1_moe": dict(score="softmax", renorm=True),
    "gpt_oss": dict(score="selected"),
    "phimoe": dict(score="mixer"),
    "llama4_text": dict(score="sigmoid", renorm=False),
    "openai_privacy_filter": dict(score="selected"),
    "zaya": dict(score="softmax", renorm=False),
    "lfm2_moe": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "qwen3_next": dict(score="softmax", renorm=None),
    "kimi_linear": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "qwen3_5_moe_text": dict(score="softmax", renorm=True),
    "gemma4_text": dict(score="softmax", renorm=True),
    "flex_olmo": dict(score="softmax", renorm=None),
    "afmoe": dict(score="sigmoid", renorm=True, scale="route_scale"),
    "flint": dict(score="sigmoid", renorm=None),
    "kolibri1": dict(score="sigmoid", renorm=None, choice="logits"),
    "sarvam_moe": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "axk1": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "granitemoe_swa": dict(score="selected"),
    "laguna": dict(score="sigmoid", renorm=True, scale="moe_routed_scaling_factor"),
    "bailing_hybrid": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "lara_mini": dict(score="softmax", renorm=None),
    "mimo_v2_flash": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "mistral4": dict(score="softmax", renorm=None, scale="routed_scaling_factor"),
    "cohere2_moe": dict(score="selected"),
    "cohere2_moe, sigmoid": dict(score="sigmoid", renorm=None, choice="logits"),
}


def routing_of(config):
    function = getattr(config, "expert_selection_fn", "softmax")
    return ROUTING[config.model_type if function == "softmax" else f"{config.model_type}, {function}"]


# The function of all logits per score of ROUTING.
FUNCTIONS = {"softmax": "softmax", "selected": "softmax", "mixer": "softmax", "sigmoid": "sigmoid"}


def function_of(score):
    """Returns "softmax" or "sigmoid". Raises ValueError for a score that FUNCTIONS lacks."""
    if score not in FUNCTIONS:
        raise ValueError(f'unknown score "{score}", known: {", ".join(FUNCTIONS)}; add it to FUNCTIONS')
    return FUNCTIONS[score]


def router_scores(config, logits):
    """Scores [T,E] of all experts."""
    return logits.sigmoid() if function_of(routing_of(config)["score"]) == "sigmoid" else logits.softmax(-1)


def has_groups(config):
    return (getattr(config, "n_group", 1) or 1) > 1


def choice_scores(config, scores, bias):
    """Biased scores [T,E]; the lowest finite number for experts of groups that are not kept, because biases have no lower
    bound."""
    choice = scores if bias is None else scores + bias
    groups, kept = getattr(config, "n_group", 1), getattr(config, "topk_group", 1)
    by_group = choice.unflatten(-1, (groups, -1))
    best_of = 1 if routing_of(config).get("group_score") == "max" else min(2, by_group.shape[-1])
    best = by_group.topk(best_of, dim=-1).values.sum(-1)
    open_groups = torch.zeros_like(best).scatter(-1, best.topk(kept, dim=-1).indices, 1)
    return by_group.masked_fill(open_groups[..., None] == 0, torch.finfo(choice.dtype).min).flatten(-2)


def choice_of(step, layer_prefix):
    """Returns the selection scores of a layer: the choice scores if the step has them, otherwise the logits."""
    return step.get(layer_prefix + "choice_scores", step[layer_prefix + "router_logits"])


def mixer_reach(logits, experts, eps):
    """For each pick [T,k,E], the distance of each logit from the threshold of the range around the picked logit, relative to
    the larger magnitude of the two. Negative outside the range; minus infinity for experts picked before."""
    reach = []
    left = logits.clone()
    for i in range(experts.shape[-1]):
        top = left.gather(-1, experts[:, i:i + 1])
        behind = (top - logits) / torch.maximum(logits.abs(), top)
        reach.append((2 * eps - behind).masked_fill(left == -math.inf, -math.inf))
        left = left.scatter(-1, experts[:, i:i + 1], -math.inf)
    return torch.stack(reach, dim=1)


def mixer_weights(logits, experts, eps):
    near = mixer_reach(logits, experts, eps) >= 0
    shares = logits[:, None].expand_as(near).masked_fill(~near, -math.inf).softmax(-1)
    return shares.gather(-1, experts[..., None])[..., 0]


def score_weights(config, scores, experts):
    """Returns the scores of the picked experts, renormalised and scaled as the family requires."""
    routing = routing_of(config)
    weights = scores.gather(-1, experts)
    if config.norm_topk_prob if routing["renorm"] is None else routing["renorm"]:
        weights = weights / weights.sum(-1, keepdim=True)
    weights = weights * getattr(config, routing.get("scale", ""), 1.0)
    if config.model_type == "zaya":
        weights = weights.masked_fill(experts == config.num_experts, 0)
    return weights


def check_routing(config, step, layer_prefix, top_k, expert_scales=None):
    """Asserts that the reference picked `top_k` experts with the weights of ROUTING. `expert_scales` has a factor per
    expert."""
    logits, experts = step[layer_prefix + "router_logits"], step[layer_prefix + "experts"]
    assert experts.shape[-1] == top_k, "number of experts"
    wanted = choice_of(step, layer_prefix).topk(experts.shape[-1], dim=-1).indices
    assert torch.equal(wanted.sort(-1).values, experts.sort(-1).values), "chosen experts"
    score = routing_of(config)["score"]
    if score == "mixer":
        weights = mixer_weights(logits, experts, config.router_jitter_noise)
    elif score == "selected":
        weights = logits.gather(-1, experts).softmax(-1)
    else:
        weights = score_weights(config, step[layer_prefix + "router_scores"], experts)
    if expert_scales is not None:
        weights = weights * expert_scales[experts]
    assert torch.allclose(weights, step[layer_prefix + "weights"], atol=1e-6), "router weights"
