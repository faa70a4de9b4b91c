"""Random variants of the cases: checkpoints that were not used in development.

A variant has the family and options of a case, with other sizes and numbers, omitted keys with the class's default values,
and changed weights that keep the model meaningful: correction biases with an offset, scaled experts, large attention scores.
A seed reproduces a variant. A variant that transformers cannot construct or run is redrawn.
"""

import dataclasses
import json
import random

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from golden.cases import CASES
from golden.checkpoint import write_checkpoint
from golden.labels import TAGGERS

OFFSETS = (0.0, 7.0, 35.0)  # of correction biases, as in published checkpoints of GLM and DeepSeek
SCALES = (0.25, 1.0, 4.0)   # of query projections, which changes the range of attention scores
SPEEDS = (0.0, -4.0, 4.0)   # added to the logarithms of decay rates in Kimi delta attention
KEPT = {"model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "quantization_config"}


@dataclasses.dataclass
class Variant:
    """The changes: arguments of the config, keys omitted from its file, and changed weights."""

    case: str
    seed: int
    args: dict = dataclasses.field(default_factory=dict)
    absent: list = dataclasses.field(default_factory=list)
    moved: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        changed = {k: v for k, v in self.args.items() if CASES[self.case]["args"].get(k) != v}
        return f"{self.case} seed {self.seed}: {changed}, absent {self.absent}, moved {self.moved}"


def draw_sizes(args, rng):
    """Redraws the sizes in `args`, subject to the constraints between them."""
    sizes = dict(args)
    heads = rng.choice([2, 3, 4, 6])
    groups = rng.choice([g for g in range(1, heads + 1) if heads % g == 0])
    sizes["num_attention_heads"] = heads
    if "num_key_value_heads" in args:
        latent = "kv_lora_rank" in args
        sizes["num_key_value_heads"] = heads if latent else groups
    if args.get("num_global_key_value_heads"):
        sizes["num_global_key_value_heads"] = rng.choice([g for g in range(1, heads + 1) if heads % g == 0])
    if "global_head_dim" in args:
        sizes["global_head_dim"] = rng.choice([8, 16, 24])
    width = rng.choice([4, 8, 12, 16])
    if "head_dim" in args:
        sizes["head_dim"] = width
        sizes["hidden_size"] = 2 * rng.randrange(12, 40)
    elif "kv_lora_rank" not in args:
        sizes["hidden_size"] = heads * width
    for name in ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size",
                 "shared_intermediate_size", "intermediate_size_mlp"):
        if args.get(name):
            sizes[name] = 2 * rng.randrange(6, 32)
    if args.get("moe_latent_size"):
        sizes["moe_latent_size"] = rng.randrange(5, 48)
    sizes["vocab_size"] = rng.randrange(80, 140)
    return sizes


def draw_routing(args, rng):
    """Redraws the number of experts, divisible by groups, and top-k."""
    routing = {}
    counts = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    experts = next((k for k in counts if k in args), None)
    chosen = next((k for k in ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts") if k in args), None)
    if not args.get(experts):
        return routing
    groups = args.get("n_group") or 1
    count = groups * rng.randrange(2 if groups > 1 else 3, 5 if groups > 1 else 10)
    routing[experts] = count
    limit = count * (args.get("topk_group") or groups) // groups
    if chosen and args[chosen] > 1:
        routing[chosen] = rng.randrange(2, max(3, min(limit, 6)))
    return routing


def draw_state_space(args, rng):
    """Redraws the sizes of a state space, if the model has one; channels stay heads × head size."""
    sizes = {}
    if "mamba_n_heads" in args:  # channels of all heads are a multiple of the hidden size
        inner = args["mamba_expand"] * args["hidden_size"]
        heads = rng.choice([h for h in range(2, 9) if inner % h == 0])
        sizes.update(mamba_n_heads=heads, mamba_d_head=inner // heads, mamba_d_state=rng.randrange(4, 20),
                     mamba_d_conv=rng.randrange(2, 6))
        sizes["mamba_n_groups"] = rng.choice([g for g in range(1, heads + 1) if heads % g == 0])
    if "mamba_num_heads" in args:
        heads = rng.randrange(2, 9)
        sizes.update(mamba_num_heads=heads, mamba_head_dim=rng.randrange(4, 20), ssm_state_size=rng.randrange(4, 20),
                     conv_kernel=rng.randrange(2, 6), layer_norm_epsilon=rng.choice([1e-6, 1e-5, 1e-3]))
        sizes["n_groups"] = rng.choice([g for g in range(1, heads + 1) if heads % g == 0])
        sizes["layers_block_type"] = rng.sample(args["layers_block_type"], len(args["layers_block_type"]))
    return sizes


def draw_delta(args, rng):
    """Redraws the sizes of Kimi delta attention, if the model has it."""
    if "linear_num_heads" not in args:
        return {}
    return dict(linear_num_heads=rng.randrange(1, 7), linear_head_dim=rng.randrange(4, 20),
                linear_conv_kernel_dim=rng.randrange(2, 6))


def draw_numbers(args, rng):
    """Redraws single numbers of a configuration."""
    numbers = {}
    if "sliding_window" in args and isinstance(args["sliding_window"], int):
        numbers["sliding_window"] = rng.randrange(2, 12)
    if "routed_scaling_factor" in args:
        numbers["routed_scaling_factor"] = rng.choice([1.0, 1.8, 2.5])
    for name in ("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"):
        if name in args:
            numbers[name] = args[name] * rng.choice([0.5, 1.0, 2.0])
    if "layers_block_type" not in args:  # draw_state_space handles nemotron_h
        numbers["rms_norm_eps"] = rng.choice([0.0, 1e-6, 1e-5, 1e-3])
    if "rms_norm_eps" in args and args["rms_norm_eps"] is None:  # cohere2_moe: layer norms unless it is set
        numbers["rms_norm_eps"] = rng.choice([None, 1e-6, 1e-3])
        numbers["layer_norm_eps"] = rng.choice([1e-6, 1e-5, 1e-3])
    return numbers


def defaults_present(folder):
    """Keys of a config file whose removal does not change the config that transformers reads."""
    path = folder / "config.json"
    text, config = path.read_text(), json.loads(path.read_text())
    whole, present = AutoConfig.from_pretrained(folder).to_dict(), []
    for key in sorted(set(config) - KEPT):
        path.write_text(json.dumps({k: v for k, v in config.items() if k != key}))
        try:
            same = AutoConfig.from_pretrained(folder).to_dict() == whole
        except Exception:  # noqa: BLE001: classes that require the key raise many types of exceptions
            same = False
        if same:
            present.append(key)
    path.write_text(text)
    return present


def leave_out(folder, rng):
    """Removes about half of the keys that may be omitted. Returns the removed keys."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    whole = AutoConfig.from_pretrained(folder).to_dict()
    absent = [key for key in defaults_present(folder) if rng.random() < 0.5]
    path.write_text(json.dumps({k: v for k, v in config.items() if k not in absent}, indent=1))
    if AutoConfig.from_pretrained(folder).to_dict() == whole:  # omitted keys may replace one another
        return absent
    path.write_text(json.dumps(config, indent=1))
    return []


def move_weights(folder, rng):
    """Changes weights in the files. Returns a description of the changes."""
    moved = {"bias offset": rng.choice(OFFSETS), "queries": rng.choice(SCALES), "experts": rng.choice(SCALES)}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors = load_file(file)
        speeds = ("self_attn.A_log", "forget_gate.A_log")
        if any(name.endswith(speeds) for name in tensors):
            moved["decay"] = rng.choice(SPEEDS)
        for name, tensor in tensors.items():
            if name.endswith(speeds):
                tensors[name] = tensor + moved["decay"]
            if name.endswith("e_score_correction_bias"):
                tensors[name] = tensor + moved["bias offset"]
            if name.endswith("q_proj.weight"):
                tensors[name] = tensor * moved["queries"]
            if ".experts." in name and name.endswith(("down_proj", "down_proj.weight", "w2.weight")):
                tensors[name] = tensor * moved["experts"]
        save_file(tensors, file, metadata={"format": "pt"})
    return moved


def write_variant(case, seed, folder):
    """Writes a random variant of a case into an empty folder. Raises transformers' exception if the sizes are
    incompatible."""
    rng = random.Random(f"{case} {seed}")
    spec = CASES[case]
    variant = Variant(case, seed)
    variant.args = {**spec["args"]}
    for draw in (draw_sizes, draw_routing, draw_state_space, draw_delta, draw_numbers):
        variant.args.update(draw(variant.args, rng))
    torch.manual_seed(seed)
    write_checkpoint(f"{case} {seed}", {**spec, "args": variant.args, "absent": []}, folder)
    variant.moved = move_weights(folder, rng)
    variant.absent = leave_out(folder, rng)
    return variant


def random_cases(family=None):
    """Returns the cases to vary: cases that generate text, store floats and state their sizes."""
    return [name for name, spec in CASES.items() if family in (None, spec["family"]) and "quantization" not in spec
            and "absent" not in spec and spec["family"] not in TAGGERS]
