"""Measures a model on held-out text: loss, and load balance of its experts."""

import numpy as np
import torch
from torch.nn import functional as F

from training.expert_use import describe
from training.router.routers import counts_of, probabilities


@torch.no_grad()
def measure(model, watch, texts, settings):
    """Returns {"loss": {domain: nats per token, "mean": …}}; with routers also "use" (training.expert_use.describe),
    "domain_use" {domain: shares [layers][experts]} and "token_entropy": per layer, the mean entropy of a token's scores
    relative to even scores."""
    was_training = model.training
    model.eval()
    loss, counts, entropies = {}, {}, []
    for domain in texts.held:
        losses, counts[domain] = [], []
        for x in texts.held_batches(domain, settings.held_batches, settings.batch):
            value, decisions = losses_of(model, watch, torch.from_numpy(x))
            losses.append(value)
            counts[domain].append([counts_of(decision).numpy() for decision in decisions])
            entropies.append([token_entropy(decision.logits.float(), watch.score) for decision in decisions])
        loss[domain] = float(np.mean(losses))
    model.train(was_training)
    loss["mean"] = float(np.mean(list(loss.values())))
    found = {"loss": {domain: round(value, 5) for domain, value in loss.items()}}
    return {**found, **use_of(counts, entropies, settings)} if watch.routers else found


def losses_of(model, watch, x):
    watch.start()
    logits = model(x[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), x[:, 1:].flatten()).item(), watch.take()


def token_entropy(logits, score):
    scores = probabilities(logits, score)
    return (-(scores * scores.clamp_min(1e-30).log()).sum(-1).mean() / np.log(logits.shape[-1])).item()


def use_of(counts, entropies, settings):
    """The router part of `measure`, from counts {domain: [batches, layers, experts]}. Drop rates are per batch of one
    domain."""
    batches = np.concatenate([np.array(of_domain) for of_domain in counts.values()])
    shares = {domain: describe(of_domain, settings.capacity)["share"] for domain, of_domain in counts.items()}
    return {"use": describe(batches, settings.capacity), "domain_use": shares,
            "token_entropy": np.round(np.mean(entropies, axis=0), 4).tolist()}


def parameter_counts(model, watch):
    """Returns {"parameters": all, "active_parameters": parameters per token}; a pass must have run. A token uses only the
    routed experts that its router picks."""
    total = sum(p.numel() for p in model.parameters())
    idle = 0
    for router in watch.routers:
        experts, chosen = watch.sizes[router.name]
        idle += sum(p.numel() for p in router.block.experts.parameters()) * (experts - chosen) // experts
    return {"parameters": total, "active_parameters": total - idle}
