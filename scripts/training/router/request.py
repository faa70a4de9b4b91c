"""Parses requests for router trainings without torch, so that errors appear immediately."""

import dataclasses
import math

from golden.request import Refused

PARTS = ("router", "experts", "ffn", "all")


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase of a training: `steps` with a learning rate that rises to `rate` and falls again, for one of the PARTS of a
    model: `router` alone; `experts` with routers and shared experts; `ffn`, every feed-forward layer, also of a dense
    model; `all` weights."""

    name: str
    steps: int
    rate: float
    part: str
    checkpointing: bool = False  # recompute activations in the backward pass instead of storing them


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings common to all phases."""

    batch: int = 16        # windows per step
    length: int = 256      # tokens per window
    balance: float = 0.01  # factor of the balance loss
    z: float = 0.001       # factor of the z-loss
    bias_rate: float = 0.0  # step of the correction biases; 0: no change
    capacity: float = 1.25  # for the reported drop rate only; nothing is dropped
    save_every: int = 50   # steps between saved states
    measure_every: int = 0  # steps between measurements on held-out text; 0: only at the ends of phases
    held_batches: int = 8  # held-out batches per domain

    def window(self):
        return self.batch * self.length


def number(text, what, kind=float, least=0, strict=False):
    """Parses the number of a flag. Raises Refused if it is not a finite number, or too small."""
    try:
        value = kind(text)
    except ValueError:
        raise Refused(f"{what} {text!r} is not a number") from None
    if not math.isfinite(value) or value < least or (strict and value == least):
        raise Refused(f"{what} {text} must be {'more than' if strict else 'at least'} {least}")
    return value


def seeds_of(text):
    """Parses "0,1,2" to a list of different seeds."""
    seeds = [number(part, "--seeds", int) for part in text.split(",")]
    if len(set(seeds)) != len(seeds):
        raise Refused(f"--seeds {text} has a seed twice")
    return seeds


def settings_of(flags):
    """Settings from the flags of a training script, which have the names of the fields."""
    return Settings(
        batch=number(flags.batch, "--batch", int, 1), length=number(flags.length, "--length", int, 2),
        balance=number(flags.balance, "--balance"), z=number(flags.z, "--z"),
        bias_rate=number(flags.bias_rate, "--bias-rate"),
        capacity=number(flags.capacity, "--capacity", least=0, strict=True),
        save_every=number(flags.save_every, "--save-every", int, 1),
        measure_every=number(flags.measure_every, "--measure-every", int),
        held_batches=number(flags.held_batches, "--held-batches", int, 1))


def phases_of(flags):
    """Phase 1 trains the routers alone; phase 2, if it has steps, also trains experts."""
    first, second = number(flags.steps, "--steps", int), number(flags.expert_steps, "--expert-steps", int)
    if first + second == 0:
        raise Refused("--steps and --expert-steps are both 0: there is nothing to train")
    rates = number(flags.lr, "--lr", strict=True), number(flags.expert_lr, "--expert-lr", strict=True)
    phases = [Phase("router", first, rates[0], "router"), Phase("experts", second, rates[1], "experts", True)]
    return [phase for phase in phases if phase.steps]
