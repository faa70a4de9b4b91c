"""Finds the routers of a transformers model of any family, and records their decisions."""

import dataclasses

import torch

from golden.capture import choice_bias
from golden.checkpoint import biases_choice
from golden.request import Refused
from golden.routing import ROUTING, function_of
from training.optimiser import balance_of

NAMES = ("gate", "router")          # transformers' names of the router next to `experts`
UNSUITED = {"zaya": "its routers pass a state from layer to layer and may pick a null expert"}
SHARED = ("shared_expert", "shared_experts", "shared_mlp", "shared_expert_gate")


@dataclasses.dataclass
class Router:
    """A router. `block` is the module that contains it and its experts. `bias` is a view of its correction bias [E], which
    affects the selection of experts but not their weights, or None."""

    name: str
    module: torch.nn.Module
    block: torch.nn.Module
    bias: torch.Tensor | None


@dataclasses.dataclass
class Decision:
    """A router's decisions in one pass: logits [T,E], picked experts [T,k], their weights [T,k]."""

    logits: torch.Tensor
    experts: torch.Tensor
    weights: torch.Tensor


def find_routers(model):
    """The routers of a model in order. Raises Refused if it has none, or one that cannot be trained here."""
    family = model.config.get_text_config().model_type
    if family in UNSUITED:
        raise Refused(f"routers of {family} are not supported: {UNSUITED[family]}")
    found = []
    for name, block in model.named_modules():
        child = next((child for child in NAMES if hasattr(block, child)), None)
        if child is None or not isinstance(getattr(block, "experts", None), torch.nn.Module):
            continue
        found.append(Router(f"{name}.{child}", getattr(block, child), block, choice_bias(block)))
    if not found:
        raise Refused(f"the model ({family}) has no module with `experts` and a `gate` or a `router`: it is dense, or an "
                      "unsupported kind of MoE")
    return found


def score_of(family):
    """The scores of a family for the balance loss: "sigmoid", divided by the sum over experts, or "softmax", also for
    families that ROUTING lacks. Raises ValueError for an unknown score."""
    return function_of(ROUTING[family]["score"]) if family in ROUTING else "softmax"


def probabilities(logits, score):
    if function_of(score) == "softmax":
        return logits.softmax(-1)
    scores = logits.sigmoid()
    return scores / scores.sum(-1, keepdim=True)


def decision_of(router, out, logits):
    """Converts a router's output to a Decision. `logits` is the output of the router's last linear layer, if that is a
    separate module. Raises Refused for unknown forms of output."""
    if isinstance(out, tuple) and len(out) == 2 and out[0].shape == out[1].shape:  # llama4: scores of all, logits
        weights, experts = out[0].topk(router.module.top_k, dim=-1)
        return Decision(out[1], experts, weights)
    if isinstance(out, tuple) and len(out) == 3 and out[1].shape == out[2].shape and not out[2].is_floating_point():
        return Decision(out[0] if logits is None else logits, out[2], out[1])
    raise Refused(f"{router.name} ({type(router.module).__name__}) does not return (logits, weights, experts); "
                  "routers of this form are not supported")


class Watch:
    """Records the routers' decisions, with their autograd graph, from `start` to `take`. Ignores other passes, such as
    those that gradient checkpointing repeats in the backward pass."""

    def __init__(self, model, routers):
        self.routers, self.seen, self.logits, self.on = routers, {}, None, False
        self.sizes = {}  # per router that ran: numbers of experts, and of picked experts
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
        """Returns the decisions since `start`, in the order of the routers."""
        seen, self.seen, self.on = self.seen, {}, False
        idle = [router.name for router in self.routers if router.name not in seen]
        if idle:
            raise Refused(f"{idle[0]} is not used for text ({len(idle)} of {len(self.routers)} routers are not): models "
                          "with such routers are not supported")
        return [seen[router.name] for router in self.routers]


def counts_of(decision):
    """Number of (token, slot) pairs per expert, [E]."""
    return torch.bincount(decision.experts.flatten(), minlength=decision.logits.shape[-1])


def router_losses(decisions, score):
    """Returns (balance, z), averaged over the layers: E * sum_e fraction_e * probability_e, and the mean of
    logsumexp(logits)^2 (ST-MoE, arXiv:2202.08906, equation 5)."""
    balance = z = 0.0
    for decision in decisions:
        counts, logits = counts_of(decision), decision.logits.float()
        balance = balance + balance_of(counts / counts.sum(), probabilities(logits, score).mean(0))
        z = z + logits.logsumexp(-1).square().mean()
    return balance / len(decisions), z / len(decisions)


@torch.no_grad()
def move_biases(routers, decisions, rate):
    """Loss-free balancing (arXiv:2408.15664; DeepSeek-V3): by `rate`, raises the correction bias of experts below the
    even share of this batch, and lowers the bias of experts above it."""
    for router, decision in zip(routers, decisions):
        counts = counts_of(decision).float()
        router.bias.add_(rate * (counts.mean() - counts).sign())


def check_biases(routers):
    without = [router.name for router in routers if router.bias is None]
    if without:
        raise Refused(f"--bias-rate needs routers with a correction bias in the checkpoint, and {without[0]} has none: "
                      "use --balance instead, or upcycle into an architecture with such biases, such as deepseek_v3")


def check_weights(routers, decisions):
    """Raises Refused for routers whose weight is always 1: such a weight does not depend on the logits, so only the
    balance loss would train the router."""
    for router, decision in zip(routers, decisions):
        if decision.experts.shape[-1] == 1 and bool((decision.weights == 1).all()):
            raise Refused(f"{router.name} picks one expert, always with the weight 1, so the loss has no gradient for it: "
                          "use a top-k of at least two, or weights that are not normalised")


@torch.no_grad()
def redraw(routers, std, seed):
    """Redraws the matrices of all routers from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    for router in routers:
        for name, weight in router.module.named_parameters():
            if weight.dim() == 2 and not biases_choice(name):
                weight.copy_(std * torch.randn(weight.shape, generator=generator))


def parameters_of(model, routers, part):
    """Returns [(name, parameter)] of a Phase's part, without correction biases, which have no gradient."""
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
    """Routed experts of a router's block, and shared experts of the block or its layer."""
    layer = model.get_submodule(router.name.rsplit(".", 2)[0]) if router.name.count(".") > 1 else router.block
    shared = [getattr(holder, name) for holder in (router.block, layer) for name in SHARED if hasattr(holder, name)]
    return [router.block.experts, *(module for module in shared if isinstance(module, torch.nn.Module))]
