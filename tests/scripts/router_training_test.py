"""Routers of transformers' models are found, observed and trained; an interrupted training resumes to the same result.
Skipped without PyTorch:

    pip install torch==2.13.0      # first: this pin gives a CPU build
    pip install transformers==5.23.0 safetensors matplotlib pytest
    pytest tests/scripts/router_training_test.py
"""

import json
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "scripts"))

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")

import train_router  # noqa: E402
from golden.cases import CASES  # noqa: E402
from golden.checkpoint import new_model, randomise, write_checkpoint  # noqa: E402
from golden.request import Refused  # noqa: E402
from golden.routing import ROUTING, choice_scores, router_scores  # noqa: E402
from training.optimiser import balance_of  # noqa: E402
from training.router import job as jobs  # noqa: E402
from training.router.request import Phase, Settings  # noqa: E402
from training.router.routers import (  # noqa: E402
    Decision, Watch, check_biases, check_weights, counts_of, find_routers, move_biases, parameters_of,
    probabilities, redraw, router_losses, score_of)
from training.router.run_folder import Part  # noqa: E402
from training.router.texts import Texts  # noqa: E402
from training.router.trainer import Diverged, Trainer, predict  # noqa: E402

torch.set_num_threads(1)
jobs.quieten()

ROUTED = ["mixtral_a", "qwen2_moe_a", "qwen3_moe_a", "granitemoeshared_a", "olmoe_a", "deepseek_v3_a", "deepseek_v2_a",
          "glm4_moe_a", "minimax_m2_a", "ernie4_5_moe_a", "gpt_oss_a", "llama4_a", "gemma4_a", "lfm2_moe_a",
          "hunyuan_v1_moe_a", "nemotron_h_a"]
TINY = dict(family="qwen3_moe", disk=torch.float32, config=transformers.Qwen3MoeConfig, args=dict(
    hidden_size=32, intermediate_size=32, moe_intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, vocab_size=256,
    tie_word_embeddings=False, max_position_embeddings=64, decoder_sparse_step=1, mlp_only_layers=[]))
SETTINGS = Settings(batch=4, length=16, held_batches=1, save_every=3, measure_every=4)
PHASES = (Phase("router", 5, 0.01, "router"), Phase("experts", 5, 0.003, "experts", True))


def model_of(case):
    spec = CASES[case] if isinstance(case, str) else case
    model = new_model(spec)
    randomise(model, 7)
    return model


def watched(case):
    model = model_of(case)
    routers = find_routers(model)
    return model, routers, Watch(model, routers)


def tokens(model, count=24, seed=0):
    size = model.config.get_text_config().vocab_size
    return torch.randint(size, (2, count), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def texts():
    words = ["red green blue ", "1 + 1 = 2\n", "{\"a\": 1}\n"]
    return Texts({word[:3]: (word.encode() * 200, word.encode() * 40) for word in words}, list, SETTINGS.length)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A small Qwen3-MoE with byte tokens."""
    folder = tmp_path_factory.mktemp("tiny")
    write_checkpoint("tiny", TINY, folder)
    return folder


# ------------------------------------------------------------- routers ----

@pytest.mark.parametrize("case", ROUTED)
def test_decisions_follow_the_scores(case):
    model, routers, watch = watched(case)
    _, decisions = predict(model.eval(), watch, tokens(model))
    config = model.config.get_text_config()
    assert len(decisions) == len(routers) > 0
    for router, decision in zip(routers, decisions):
        scores = router_scores(config, decision.logits)
        if router.bias is not None or (getattr(config, "n_group", 1) or 1) > 1:
            scores = choice_scores(config, scores, router.bias)
        best = scores.topk(decision.experts.shape[-1], dim=-1).indices
        assert torch.equal(best.sort(-1).values, decision.experts.sort(-1).values), router.name
        assert counts_of(decision).sum() == decision.experts.numel() == decision.weights.numel()


@pytest.mark.parametrize("case", ROUTED)
def test_router_losses_reach_only_their_weights(case):
    model, routers, watch = watched(case)
    model.requires_grad_(False)
    for _, parameter in parameters_of(model, routers, "router"):
        parameter.requires_grad_(True)
    _, decisions = predict(model.eval(), watch, tokens(model))
    balance, z = router_losses(decisions, watch.score)
    (balance + z).backward()
    changed = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    for router in routers:
        assert any(name.startswith(router.name + ".") for name in changed), router.name
    assert all(any(name.startswith(router.name + ".") for router in routers) for name in changed)


@pytest.mark.parametrize("case, message", [
    ("zaya_a", "routers of zaya are not supported: its routers pass a state"),
    (dict(family="qwen3", config=transformers.Qwen3Config, args=dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, vocab_size=64)), "the model \\(qwen3\\) has no module with `experts`"),
])
def test_rejects_models_without_known_routers(case, message):
    with pytest.raises(Refused, match=message):
        find_routers(model_of(case))


def test_rejects_routers_that_no_text_reaches():
    model, _, watch = watched("ernie4_5_vl_moe_a")
    with pytest.raises(Refused, match="vision_moe.* is not used for text"):
        predict(model, watch, tokens(model))


def test_rejects_routers_with_unexpected_results():
    model, routers, watch = watched(TINY)
    routers[0].module.register_forward_hook(lambda _module, _args, out: out[0])
    other = Watch(model, routers)
    with pytest.raises(Refused, match=r"layers.0.mlp.gate \(Qwen3MoeTopKRouter\) does not return \(logits"):
        other.start()
        model(tokens(model))


# -------------------------------------------------------------- losses ----

def test_balance_loss_ranges_from_one_to_experts():
    even = torch.full((4,), 0.25)
    alone = torch.tensor([1.0, 0, 0, 0])
    assert balance_of(even, even).item() == pytest.approx(1)
    assert balance_of(alone, alone).item() == pytest.approx(4)


def test_losses_match_their_formulas():
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    decision = Decision(logits, torch.tensor([[0, 1], [1, 2]]), torch.ones(2, 2))
    balance, z = router_losses([decision], "softmax")
    raised, fraction = np.exp(logits.numpy()), np.array([0.25, 0.5, 0.25])
    probability = (raised / raised.sum(1, keepdims=True)).mean(0)
    assert balance.item() == pytest.approx(3 * (fraction * probability).sum())
    assert z.item() == pytest.approx((np.log(raised.sum(1)) ** 2).mean())
    sigmoid, _ = router_losses([decision], "sigmoid")
    scores = 1 / (1 + np.exp(-logits.numpy()))
    assert sigmoid.item() == pytest.approx(3 * (fraction * (scores / scores.sum(1, keepdims=True)).mean(0)).sum())
    assert score_of("deepseek_v3") == "sigmoid" and score_of("mixtral") == score_of("some_new_moe") == "softmax"


def test_unknown_scores_are_named(monkeypatch):
    monkeypatch.setitem(ROUTING, "new_moe", {"score": "hardmax"})
    for compute in (lambda: score_of("new_moe"), lambda: probabilities(torch.zeros(1, 4), "hardmax"),
                    lambda: router_scores(SimpleNamespace(model_type="new_moe"), torch.zeros(1, 4))):
        with pytest.raises(ValueError, match='unknown score "hardmax"'):
            compute()


def test_minimizing_the_balance_loss_spreads_tokens():
    model, routers, watch = watched(TINY)
    x = tokens(model, 64)
    trained = [p for _, p in parameters_of(model, routers, "router")]
    with torch.no_grad():
        for router in routers:
            router.module.weight[0].copy_(router.module.weight.mean(0) * 4)
    optimiser = torch.optim.Adam(trained, lr=0.02)
    before = None
    for _ in range(40):
        _, decisions = predict(model, watch, x)
        balance, _ = router_losses(decisions, "softmax")
        before = before or balance.item()
        optimiser.zero_grad()
        balance.backward()
        optimiser.step()
    assert balance.item() < before - 0.05 and balance.item() < 1.02


def test_rejects_a_single_expert_with_weight_one():
    model, routers, watch = watched({**TINY, "args": {**TINY["args"], "num_experts_per_tok": 1}})
    _, decisions = predict(model, watch, tokens(model))
    with pytest.raises(Refused, match="picks one expert, always with the weight 1"):
        check_weights(routers, decisions)
    model, routers, watch = watched(TINY)
    check_weights(routers, predict(model, watch, tokens(model))[1])


# -------------------------------------------------------------- biases ----

def test_biases_balance_the_use_of_experts():
    model, routers, watch = watched("deepseek_v3_a")
    x = tokens(model, 64)
    first = None
    for _ in range(60):
        _, decisions = predict(model.eval(), watch, x)
        counts, before = counts_of(decisions[0]).float(), routers[0].bias.clone()
        first = first if first is not None else counts
        move_biases(routers, decisions, 0.01)
        assert torch.allclose(routers[0].bias - before, 0.01 * (counts.mean() - counts).sign(), atol=1e-6)
    assert counts.std() < first.std() / 2
    name = next(name for name in model.state_dict() if name.endswith("e_score_correction_bias"))
    assert torch.equal(model.state_dict()[name].flatten(), routers[0].bias)  # the bias is part of saved checkpoints


def test_rejects_biases_for_routers_without_them():
    _, routers, _ = watched("mixtral_a")
    with pytest.raises(Refused, match=r"layers.0.mlp.gate has none"):
        check_biases(routers)
    check_biases(watched("ernie4_5_moe_a")[1])


def test_redrawn_routers_follow_deviation_and_seed():
    _, routers, _ = watched(TINY)
    redraw(routers, 0.5, 3)
    first = [router.module.weight.clone() for router in routers]
    assert all(abs(weight.std() - 0.5) < 0.1 for weight in first)
    redraw(routers, 0.5, 3)
    assert all(torch.equal(weight, router.module.weight) for weight, router in zip(first, routers))
    redraw(routers, 0.5, 4)
    assert not torch.equal(first[0], routers[0].module.weight)


# ------------------------------------------------------------ training ----

def trainer_of(checkpoint, texts, phases=PHASES, settings=SETTINGS, seed=0):
    return jobs.trainer_of(jobs.Job(checkpoint, phases, settings, seed), texts)


def weights_of(trainer):
    return {name: tensor.detach().clone() for name, tensor in trainer.model.state_dict().items()}


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_phase_one_changes_only_routers(checkpoint, texts):
    trainer = trainer_of(checkpoint, texts)
    start = weights_of(trainer)
    trainer.run_phase(None, None)
    first = weights_of(trainer)
    assert changed(start, first) == {f"model.layers.{i}.mlp.gate.weight" for i in range(2)}
    trainer.phase, trainer.step = 1, 0
    trainer.begin_phase()
    trainer.run_phase(None, None)
    assert changed(first, weights_of(trainer)) == {
        f"model.layers.{i}.mlp.{name}" for i in range(2)
        for name in ("gate.weight", "experts.gate_up_proj", "experts.down_proj")}


def test_trains_shared_experts_with_routed_experts():
    for case, shared in (("granitemoeshared_a", "shared_mlp"), ("qwen2_moe_a", "shared_expert_gate"),
                         ("deepseek_v3_a", "shared_experts")):
        model, routers, _ = watched(case)
        names = [name for name, _ in parameters_of(model, routers, "experts")]
        assert any(f".{shared}." in name for name in names), case
        assert not any("attn" in name or "norm" in name or "embed" in name for name in names), case


def test_checkpointing_preserves_gradients(checkpoint, texts):
    gradients = []
    for checkpointing in (False, True):
        trainer = trainer_of(checkpoint, texts, (Phase("experts", 5, 0.001, "experts", checkpointing),))
        trainer.model.train()
        trainer.train_step(trainer.phases[0])
        gradients.append([p.grad for _, p in trainer.trained])
        assert trainer.model.is_activation_checkpointing == checkpointing
    assert len(gradients[0]) > 4 and all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*gradients))


class Stopped(Exception):
    pass


class StopAfter:
    """A progress bar that interrupts training after a number of steps."""

    def __init__(self, steps):
        self.left = steps

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise Stopped


@pytest.mark.parametrize("stops", [[2], [4], [5], [7], [4, 3, 2]])
def test_interrupted_training_resumes_to_equal_weights(checkpoint, texts, tmp_path, stops):
    whole = trainer_of(checkpoint, texts)
    whole.run()
    part = Part(tmp_path / "seed0")
    for steps in stops:
        trainer = trainer_of(checkpoint, texts)
        if part.state.is_file():
            trainer.load(part)
        with pytest.raises(Stopped):
            trainer.run(part, StopAfter(steps))
    resumed = trainer_of(checkpoint, texts)
    if part.state.is_file():
        resumed.load(part)
        assert resumed.total > 0
    resumed.run(part)
    assert changed(weights_of(whole), weights_of(resumed)) == set()
    assert (whole.history, whole.measured) == (resumed.history, resumed.measured)


def test_state_contains_correction_biases(tmp_path):
    folder = tmp_path / "model"
    spec = {**CASES["deepseek_v3_a"], "disk": torch.float32}
    write_checkpoint("deepseek_v3_a", spec, folder)
    small = Texts({"a": (bytes(range(80)) * 4, bytes(range(80)))}, list, 16)
    settings = Settings(batch=2, length=16, held_batches=1, bias_rate=0.01, save_every=2)
    phases = (Phase("router", 4, 0.01, "router"),)
    whole, part = trainer_of(folder, small, phases, settings), Part(tmp_path / "seed0")
    before = whole.routers[0].bias.clone()
    whole.run()
    assert not torch.equal(before, whole.routers[0].bias)
    with pytest.raises(Stopped):
        trainer_of(folder, small, phases, settings).run(part, StopAfter(3))
    resumed = trainer_of(folder, small, phases, settings)
    resumed.load(part)
    resumed.run(part)
    assert changed(weights_of(whole), weights_of(resumed)) == set()


@pytest.mark.parametrize("content", [b"", b"no state at all", None])
def test_rejects_a_damaged_state(checkpoint, texts, tmp_path, content):
    trainer, part = trainer_of(checkpoint, texts), Part(tmp_path / "seed0")
    trainer.save(part)
    part.state.write_bytes(part.state.read_bytes()[:-100] if content is None else content)
    with pytest.raises(Refused, match="state.pt cannot be read"):
        trainer_of(checkpoint, texts).load(part)


def test_rejects_a_state_of_another_model(checkpoint, texts, tmp_path):
    part = Part(tmp_path / "seed0")
    trainer_of(checkpoint, texts).save(part)
    with pytest.raises(Refused, match="belongs to another model"):
        trainer_of(checkpoint, texts, PHASES[:1]).load(part)


def test_stops_at_a_nonfinite_loss(checkpoint, texts):
    trainer = trainer_of(checkpoint, texts)
    with torch.no_grad():
        trainer.model.lm_head.weight[0, 0] = torch.nan
    with pytest.raises(Diverged, match="step 0: the loss is nan"):
        trainer.run_phase(None, None)


# ---------------------------------------------------------- checkpoints ----

def test_stores_the_trained_weights(checkpoint, texts, tmp_path):
    part = Part(tmp_path / "seed0")
    job = jobs.Job(checkpoint, PHASES, SETTINGS, 0)
    metrics = jobs.train(part, job, texts)
    trainer = trainer_of(checkpoint, texts)
    trainer.run()
    stored = jobs.load_model(part.path / "model").state_dict()
    assert changed(weights_of(trainer), stored) == set()
    assert metrics["stored"]["loss"] == metrics["measured"][-1]["loss"]
    assert jobs.train(part, job, None) == metrics  # the training is finished and not repeated


def test_rejects_a_checkpoint_without_a_tensor(checkpoint, tmp_path):
    tensors = safetensors_torch.load_file(checkpoint / "model.safetensors")
    name = "model.layers.1.mlp.gate.weight"
    del tensors[name]
    safetensors_torch.save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    with pytest.raises(Refused, match=f"lacks {name}"):
        jobs.load_model(tmp_path)


# -------------------------------------------------------------- program ----

@pytest.fixture
def program(monkeypatch, checkpoint, tmp_path):
    """program(*flags) runs train_router.py on the small model and a short text, and returns its exit code."""
    words = tmp_path / "words"
    words.mkdir()
    (words / "a.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 60)

    def run(*flags):
        monkeypatch.setattr(sys, "argv", [
            "train_router.py", str(checkpoint), "--out", str(tmp_path / "out"), "--text", str(words), "--steps", "4",
            "--expert-steps", "4", "--batch", "2", "--length", "16", "--held-batches", "1", "--threads", "1",
            "--no-plots", *flags])
        return train_router.main()

    return run


def test_run_writes_metrics_and_models_per_seed(program, tmp_path, capsys):
    code = program("--seeds", "0,1", "--save-every", "2")
    report = json.loads((tmp_path / "out/metrics.json").read_text())
    assert code == (0 if all(all(criteria.values()) for criteria in report["verdicts"].values()) else 1)
    assert list(report["trainings"]) == list(report["verdicts"]) == ["seed0", "seed1"]
    for seed in ("seed0", "seed1"):
        assert (tmp_path / "out" / seed / "model/model.safetensors").is_file()
        assert [m["phase"] for m in report["trainings"][seed]["measured"]][0] == "untrained"
        assert report["trainings"][seed]["measured"][0]["active_parameters"] < \
            report["trainings"][seed]["measured"][0]["parameters"]
    assert "| seed1, experts |" in capsys.readouterr().out


def test_keeps_a_finished_run_and_rejects_others(program, tmp_path, capsys):
    code = program("--seeds", "0")
    before = (tmp_path / "out/seed0/model/model.safetensors").stat().st_mtime_ns
    assert program("--seeds", "0") == 2 and "is not empty" in capsys.readouterr().err
    assert program("--seeds", "0", "--resume") == code
    assert (tmp_path / "out/seed0/model/model.safetensors").stat().st_mtime_ns == before
    assert program("--seeds", "0", "--resume", "--lr", "0.02") == 2
    assert "contains another training" in capsys.readouterr().err
    assert program("--seeds", "0", "--lr", "0.02", "--force") in (0, 1)
    assert (tmp_path / "out/seed0/model/model.safetensors").stat().st_mtime_ns != before


def test_training_without_change_fails(program, tmp_path, capsys):
    assert program("--seeds", "0", "--lr", "1e-30", "--expert-steps", "0") == 1
    assert "loss below the untrained router's: NOT MET" in capsys.readouterr().out


def test_program_rejects_biases_without_support(program, capsys):
    assert program("--bias-rate", "0.001") == 2
    assert "has none: use --balance instead" in capsys.readouterr().err
