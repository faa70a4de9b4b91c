"""Finds the routers of a model of transformers, whatever its family, and watches what they decide."""

import dataclasses

import torch

from golden.capture import choice_bias
from golden.checkpoint import biases_choice
from golden.request import Refused
from golden.routing import ROUTING
from training.optimiser import balance_of

NAMES = ("gate", "router")          # transformers' names of the router beside `experts`
UNSUITED = {"zaya": "its routers hand a state from layer to layer and choose a null expert"}
SHARED = ("shared_expert", "shared_experts", "shared_mlp", "shared_expert_gate")


@dataclasses.dataclass
class Router:
    """One router. `block` is the module that holds it beside its experts, `bias` a view of its correction bias [E], or
    None; its elements change the choice of experts and not their weights."""

    name: str
    module: torch.nn.Module
    block: torch.nn.Module
    bias: torch.Tensor | None


@dataclasses.dataclass
class Decision:
    """What a router decided in one pass: logits [T,E], chosen experts [T,k], their weights [T,k]."""

    logits: torch.Tensor
    experts: torch.Tensor
    weights: torch.Tensor


def find_routers(model):
    """The routers of a model in order. Raises Refused where it has none, or one that cannot be trained here."""
    family = model.config.get_text_config().model_type
    if family in UNSUITED:
        raise Refused(f"routers of {family} are not trained here: {UNSUITED[family]}")
    found = []
    for name, block in model.named_modules():
        child = next((child for child in NAMES if hasattr(block, child)), None)
        if child is None or not isinstance(getattr(block, "experts", None), torch.nn.Module):
            continue
        found.append(Router(f"{name}.{child}", getattr(block, child), block, choice_bias(block)))
    if not found:
        raise Refused(f"the model ({family}) has no module with `experts` beside a `gate` or a `router`: it is dense, or "
                      "a kind of MoE that is not known here")
    return found


def score_of(family):
    """What the balance loss takes as the scores of a family: "sigmoid", divided by the sum over experts, or "softmax"."""
    return "sigmoid" if ROUTING.get(family, {}).get("score") == "sigmoid" else "softmax"


def probabilities(logits, score):
    if score == "softmax":
        return logits.softmax(-1)
    scores = logits.sigmoid()
    return scores / scores.sum(-1, keepdim=True)


def decision_of(router, out, logits):
    """The Decision of what a router returned; `logits` are those of its last linear layer, where that is another module.
    Raises Refused for a form that is not known."""
    if isinstance(out, tuple) and len(out) == 2 and out[0].shape == out[1].shape:  # llama4: scores of all, logits
        weights, experts = out[0].topk(router.module.top_k, dim=-1)
        return Decision(out[1], experts, weights)
    if isinstance(out, tuple) and len(out) == 3 and out[1].shape == out[2].shape and not out[2].is_floating_point():
        return Decision(out[0] if logits is None else logits, out[2], out[1])
    raise Refused(f"{router.name} ({type(router.module).__name__}) does not return (logits, weights, experts); "
                  "routers of this form are not trained here")


class Watch:
    """Keeps what the routers decide from `start` to `take`, with their graph. Passes in between are ignored, as those
    that gradient checkpointing makes again in the backward pass."""

    def __init__(self, model, routers):
        self.routers, self.seen, self.logits, self.on = routers, {}, None, False
        self.sizes = {}  # of each router that ran: how many experts it has and chooses
        self.score = score_of(model.config.get_text_config().model_type)
        for router in routers:
            inner = getattr(router.module, "proj", None)  # gemma4: the router itself returns probabilities
            if isinstance(inner, torch.nn.Linear):
                inner.register_forward_hook(self.keep_logits)
            router.module.register_forward_hook(self.keep(router))

    def keep_logits(self, _module, _args, out):
        self.logits = out

    def keep(self, router):
        def hook(_module, _args, out):
            if self.on:
                decision = decision_of(router, out, self.logits)
                flat = (t.reshape(-1, t.shape[-1]) for t in (decision.logits, decision.experts, decision.weights))
                self.seen[router.name] = Decision(*flat)
                self.sizes[router.name] = decision.logits.shape[-1], decision.experts.shape[-1]
            self.logits = None
        return hook

    def start(self):
        self.seen, self.on = {}, True

    def take(self):
        """The decisions since `start`, in the order of the routers."""
        seen, self.seen, self.on = self.seen, {}, False
        idle = [router.name for router in self.routers if router.name not in seen]
        if idle:
            raise Refused(f"{idle[0]} is not used for text ({len(idle)} of {len(self.routers)} routers are not); models "
                          "with such routers are not trained here")
        return [seen[router.name] for router in self.routers]


def counts_of(decision):
    """How many (token, slot) pairs each expert gets, [E]."""
    return torch.bincount(decision.experts.flatten(), minlength=decision.logits.shape[-1])


def router_losses(decisions, score):
    """(balance, z), each averaged over the layers: E * sum_e fraction_e * probability_e, and the mean of
    logsumexp(logits)^2 (ST-MoE, arXiv:2202.08906, equation 5)."""
    balance = z = 0.0
    for decision in decisions:
        counts, logits = counts_of(decision), decision.logits.float()
        balance = balance + balance_of(counts / counts.sum(), probabilities(logits, score).mean(0))
        z = z + logits.logsumexp(-1).square().mean()
    return balance / len(decisions), z / len(decisions)


@torch.no_grad()
def move_biases(routers, decisions, rate):
    """Loss-free balancing (arXiv:2408.15664; DeepSeek-V3): raises the correction bias of each expert that got less than
    its even share of this batch, and lowers that of each that got more, by `rate`."""
    for router, decision in zip(routers, decisions):
        counts = counts_of(decision).float()
        router.bias.add_(rate * (counts.mean() - counts).sign())


def check_biases(routers):
    without = [router.name for router in routers if router.bias is None]
    if without:
        raise Refused(f"--bias-rate needs routers with a correction bias in the checkpoint; {without[0]} has none. "
                      "Use --balance instead, or upcycle into an architecture that has it, as deepseek_v3")


def check_weights(routers, decisions):
    """A weight that is always 1 does not depend on the logits: nothing but the balance would train its router."""
    for router, decision in zip(routers, decisions):
        if decision.experts.shape[-1] == 1 and bool((decision.weights == 1).all()):
            raise Refused(f"{router.name} chooses one expert and gives it the weight 1 whatever its logits are, so the "
                          "loss has no gradient for it; use a top-k of two or more, or weights that are not normalised")


@torch.no_grad()
def redraw(routers, std, seed):
    """Draws the matrices of all routers anew, from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    for router in routers:
        for name, weight in router.module.named_parameters():
            if weight.dim() == 2 and not biases_choice(name):
                weight.copy_(std * torch.randn(weight.shape, generator=generator))


def parameters_of(model, routers, part):
    """[(name, parameter)] of a Phase's part. Correction biases are never among them: they have no gradient."""
    ids = set()
    if part in ("router", "experts"):
        for router in routers:
            modules = [router.module] + ([] if part == "router" else beside(model, router))
            ids |= {id(p) for module in modules for p in module.parameters()}
    named = [(name, p) for name, p in model.named_parameters() if not biases_choice(name)]
    if part == "ffn":
        return [(name, p) for name, p in named if ".mlp." in name or ".feed_forward." in name]
    return [(name, p) for name, p in named if part == "all" or id(p) in ids]


def beside(model, router):
    """Routed experts of a router's block, and shared experts of the block or of the layer that holds it."""
    layer = model.get_submodule(router.name.rsplit(".", 2)[0]) if router.name.count(".") > 1 else router.block
    shared = [getattr(holder, name) for holder in (router.block, layer) for name in SHARED if hasattr(holder, name)]
    return [router.block.experts, *(module for module in shared if isinstance(module, torch.nn.Module))]
