"""Steps of a training in phases, and its state on disk, from which it continues with identical results."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from golden.checkpoint import biases_choice
from golden.request import Refused
from training.optimiser import BETAS, WARMUP, set_rate
from training.router.measures import measure, parameter_counts
from training.router.routers import Watch, check_weights, move_biases, parameters_of, router_losses
from training.router.run_folder import write_whole

REPORTED = 10  # steps per point of the history, which has mean losses


class Diverged(ArithmeticError):
    """Raised if a loss is not finite."""


class Trainer:
    """Trains a model in `phases` on batches determined by `seed`. A dense model has no routers. `history` has the mean
    losses of every REPORTED steps; `measured` has the measurements on held-out text with their steps."""

    def __init__(self, model, routers, texts, phases, settings, seed):
        self.model, self.routers, self.texts = model, routers, texts
        self.phases, self.settings, self.seed = phases, settings, seed
        self.watch = Watch(model, routers)
        self.rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.phase, self.step, self.total = 0, 0, 0  # step: in this phase; total: in all phases
        self.running, self.history, self.measured = np.zeros(3), [], []
        self.begin_phase()

    # ---- phases ----

    def begin_phase(self):
        phase = self.phases[self.phase]
        trained = parameters_of(self.model, self.routers, phase.part)
        if not trained:
            raise Refused(f"the model has no weights to train in the phase {phase.name} ({phase.part})")
        self.model.requires_grad_(False)
        for _, parameter in trained:
            parameter.requires_grad_(True)
        self.trained = trained
        self.optimiser = torch.optim.AdamW([p for _, p in trained], lr=phase.rate, betas=BETAS, weight_decay=0.0)
        if phase.checkpointing and self.model.supports_gradient_checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
        else:
            self.model.activation_checkpointing_disable()

    def run(self, part=None, progress=None):
        """Trains to the end of the last phase, saving the state in `part`, a folder of the run."""
        if not self.measured:
            self.take_measure("untrained")
            self.measured[0] |= parameter_counts(self.model, self.watch)
        while self.phase < len(self.phases):
            self.run_phase(part, progress)
            self.phase, self.step = self.phase + 1, 0
            if self.phase < len(self.phases):
                self.begin_phase()
            self.save(part)
        return self.measured

    def run_phase(self, part, progress):
        phase, settings = self.phases[self.phase], self.settings
        self.model.train()
        while self.step < phase.steps:
            self.train_step(phase)
            last = self.step == phase.steps
            if progress:
                progress.step()
            if last or settings.measure_every and self.step % settings.measure_every == 0:
                self.take_measure(phase.name)
            if not last and self.step % settings.save_every == 0:
                self.save(part)

    def take_measure(self, name):
        found = measure(self.model, self.watch, self.texts, self.settings)
        self.measured.append({"phase": name, "step": self.total, **found})

    # ---- steps ----

    def train_step(self, phase):
        warmup = min(WARMUP, max(1, phase.steps // 10))
        set_rate(self.optimiser, phase.rate, self.step, self.step, phase.steps, warmup)
        x = torch.from_numpy(self.texts.batch(self.settings.batch, self.rng))
        loss, decisions = predict(self.model, self.watch, x)
        balance, z = router_losses(decisions, self.watch.score) if decisions else (torch.zeros(()), torch.zeros(()))
        if self.total == 0:
            check_weights(self.routers, decisions)
        if not math.isfinite(loss.item() + balance.item() + z.item()):
            raise Diverged(f"step {self.total}: the loss is {loss.item()}, balance {balance.item()}, z {z.item()}")
        self.descend(loss + self.settings.balance * balance + self.settings.z * z)
        if self.settings.bias_rate and decisions:
            move_biases(self.routers, decisions, self.settings.bias_rate)
        self.step, self.total = self.step + 1, self.total + 1
        self.remember([loss.item(), balance.item(), z.item()])

    def descend(self, loss):
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in self.trained], 1.0)
        self.optimiser.step()

    def remember(self, losses):
        self.running += losses
        if self.total % REPORTED == 0:
            self.history.append([self.total, *np.round(self.running / REPORTED, 5).tolist()])
            self.running[:] = 0

    # ---- state ----

    def weights(self):
        """All weights that a phase may change: parameters of all parts, and correction biases."""
        named = {name: p for phase in self.phases for name, p in parameters_of(self.model, self.routers, phase.part)}
        return {**named, **{name: b for name, b in [*self.model.named_buffers(), *self.model.named_parameters()]
                            if biases_choice(name)}}

    def save(self, part):
        if part is None:
            return
        state = {
            "phase": self.phase, "step": self.step, "total": self.total, "running": self.running.tolist(),
            "history": self.history, "measured": self.measured, "rng": self.rng.bit_generator.state,
            "torch_rng": torch.get_rng_state(), "weights": {n: t.detach() for n, t in self.weights().items()},
            "optimiser": self.optimiser.state_dict() if self.phase < len(self.phases) else None,
        }
        write_whole(part.state, lambda path: torch.save(state, path))

    def load(self, part):
        """Restores the state that `save` wrote. Raises Refused if the file is not such a state."""
        try:
            state = torch.load(part.state, weights_only=True)
            self.restore(state)
        except Refused:
            raise
        except Exception as error:  # torch raises many types of exceptions for damaged files
            raise Refused(f"{part.state} cannot be read ({type(error).__name__}: {error}); remove it to restart this "
                          "seed") from error

    @torch.no_grad()
    def restore(self, state):
        self.phase, self.step, self.total = state["phase"], state["step"], state["total"]
        self.running, self.history = np.array(state["running"]), state["history"]
        self.measured = state["measured"]
        mine = self.weights()
        if mine.keys() != state["weights"].keys():
            raise Refused("the state on disk belongs to another model: pass --force to start over")
        for name, tensor in mine.items():
            tensor.copy_(state["weights"][name])
        if self.phase < len(self.phases):
            self.begin_phase()
            self.optimiser.load_state_dict(state["optimiser"])
        self.rng.bit_generator.state = state["rng"]
        torch.set_rng_state(state["torch_rng"])


def predict(model, watch, x):
    """Returns (mean cross entropy of the next tokens in nats, the routers' decisions)."""
    watch.start()
    logits = model(x[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), x[:, 1:].flatten()), watch.take()
