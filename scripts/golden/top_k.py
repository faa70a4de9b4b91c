"""Runs a model with another number of experts per token than in its config, in all layers or by layer."""

from golden.request import Refused

NAMES = ("top_k", "num_experts_per_tok", "top_k_experts", "moe_topk", "moe_k")  # names of the number in configs and modules


def whole(text):
    if not text.strip().isdigit():
        raise Refused(f"--top-k: '{text}' is not a number: write 1, or L0-3:1;L4-:2")
    return int(text)


def layers_of(text, moe_layers):
    """The number per MoE layer. `text` has the syntax of `moec run --top-k`: 1, or L0-3:1;L4-:2, with * for all others."""
    if ":" not in text:
        return dict.fromkeys(moe_layers, whole(text))
    found, others = {}, None
    for item in text.split(";"):
        where, _, count = item.strip().partition(":")
        if where == "*":
            others = whole(count)
            continue
        if not where.startswith("L"):
            raise Refused(f"--top-k: '{item}' has no layers: write items like L0-3:1")
        first, dash, last = where[1:].partition("-")
        last = whole(last) if last else max(moe_layers) if dash else whole(first)
        found.update({i: whole(count) for i in moe_layers if whole(first) <= i <= last})
    missing = [i for i in moe_layers if i not in found]
    if missing and others is None:
        raise Refused(f"--top-k: '{text}' lacks the layers {missing}: add them")
    return {i: found.get(i, others) for i in moe_layers}


def set_numbers(holder, k):
    """Sets the number of experts per token in a module or a config."""
    for name in NAMES:
        if isinstance(vars(holder).get(name), int):
            setattr(holder, name, k)


def take_experts(model, text):
    """Sets the number of experts per token. The hooks of the model check that it has an effect."""
    capture = model.moec_capture
    capture.top_k = layers_of(text, capture.moe_layers)
    if min(capture.top_k.values()) < 1:
        raise Refused(f"--top-k {text} is too small: pass at least one expert per token")
    numbers = set(capture.top_k.values())
    if len(numbers) == 1:
        set_numbers(model.config, *numbers)
    for layer, k in capture.top_k.items():
        for module in model.model.layers[layer].modules():
            set_numbers(module, k)
