"""Parts of a training step: learning rate, balance loss, gradient descent."""

import math

import torch
import torch.nn.functional as F

BETAS = (0.9, 0.98)  # of AdamW
WARMUP = 60          # steps
LEAST_RATE = 0.02    # final learning rate, relative to the maximum


def set_rate(optimiser, peak, step, done, total, warmup=WARMUP):
    """Sets and returns the learning rate of a step: linear warm-up over WARMUP steps, times half a cosine over `total`, of
    which `done` has passed."""
    cosine = LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * done / total))
    rate = peak * min(1.0, (step + 1) / warmup) * cosine
    for group in optimiser.param_groups:
        group["lr"] = rate
    return rate


def balance_of(fraction, probability):
    """E * sum_e fraction_e * probability_e, where fraction_e is the share of (token, slot) pairs of expert e, and
    probability_e is the mean of its scores; 1 if both are uniform. Only the probabilities have gradients, because the
    fractions are counts (Switch Transformers, arXiv:2101.03961, equation 4)."""
    return len(fraction) * (fraction * probability).sum()


def balance_loss(logits, k):
    """balance_of a router that picks the k largest of these logits [T,E], with their softmax as scores."""
    chosen = F.one_hot(logits.topk(k, dim=-1).indices, logits.shape[-1]).float().sum(1)
    return balance_of(chosen.mean(0) / k, logits.softmax(-1).mean(0))


def descend(model, optimiser, loss):
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
