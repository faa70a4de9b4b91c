"""Writes the random checkpoint of a case in the Hugging Face layout: config.json and *.safetensors."""

import hashlib
import json
import math
import re

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForTokenClassification

from golden.case_parts import F32
from golden.labels import TAGGERS
from golden.nested import around, publish_config, publish_names
from golden.stored import hide_last_layer, store_quantised


PLUS_ONE = ("qwen3_next", "qwen3_5_moe_text", "minimax_m3_vl_text")  # families whose norms multiply by 1 + w


def auto_class(family):
    if family == "mistral4":  # transformers lists its text model here only
        return AutoModelForImageTextToText
    return AutoModelForTokenClassification if family in TAGGERS else AutoModelForCausalLM


def biases_choice(name):
    return name.endswith(("e_score_correction_bias", "balancing_biases", "expert_bias"))


def kept_wide(name, family):
    """True if a tensor stays F32 in the files, as in the releases."""
    return biases_choice(name) or name.endswith("gate.wg.weight") or family in TAGGERS and name.endswith("sinks")


def uniform(noise):
    """Converts normal numbers to uniform ones in (0, 1)."""
    return torch.special.ndtr(noise)


def recurrent(name, noise):
    """Initial values as in published mixers: time steps from 1e-3 to 0.1, uniform in their logarithm, as inverse softplus;
    decays from 1 to 16. None for other tensors."""
    if name.endswith("dt_bias"):
        steps = 1e-3 * 100 ** uniform(noise)
        return steps + torch.log(-torch.expm1(-steps))
    return torch.log(1 + 15 * uniform(noise)) if name.endswith("A_log") else None


def spread(name, noise, config):
    """Scales and shifts normal noise, so that routers decide clearly and every weight affects the output."""
    if (values := recurrent(name, noise)) is not None:
        return values
    if name.endswith(("e_score_correction_bias", "expert_bias", "sinks")):
        return 0.2 * noise
    if name.endswith("bias"):
        return 0.3 * noise
    if config.model_type in PLUS_ONE and "norm" in name and "linear_attn" not in name:
        return 0.3 * noise
    if "norm" in name or name.endswith(("states_scale", "residual_scale", "router.scale", "per_expert_scale",
                                        "layer_scalar")):
        return 1 + 0.2 * noise
    if "embed_tokens" in name and config.model_type == "gemma4_text":
        return 0.2 * noise  # rows are multiplied by the root of the width and would dominate the layers' outputs
    if "embed_tokens" in name or "embeddings" in name:
        return (0.4 if config.tie_word_embeddings else 1.0) * noise
    if re.search(r"(mlp\.gate|mixer\.gate|feed_forward\.gate|gate\.wg|router)\.weight$", name):
        return noise * 1.6 / math.sqrt(noise.shape[-1])
    if name.endswith("router.proj.weight"):
        return noise * 1.6  # gemma4_text divides its input by the root of the width
    if name.endswith("router_mlp.out_proj.weight"):
        # The input has a positive mean, which would favour rows with a large mean: subtract the mean of each row.
        return (noise - noise.mean(-1, keepdim=True)) * 4.0 / math.sqrt(noise.shape[-1])
    if "conv_qk" in name:
        return noise * 1.3 / math.sqrt(noise[0].numel())
    if hasattr(config, "swiglu_limit") and "gate_up_proj" in name:  # some values exceed the limit
        inputs = -1 if config.model_type == "minimax_m3_vl_text" else -2  # of [E, out, in], or of [E, in, out]
        return noise * 5.0 / math.sqrt(noise.shape[inputs])
    if config.model_type == "llama4_text" and ".experts." in name:
        return noise * 1.3 / math.sqrt(noise.shape[-2])  # [E, in, out]
    return noise * 1.3 / math.sqrt(noise.shape[-1])  # linear maps: the last axis is the input


@torch.no_grad()
def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        p.copy_(spread(name, torch.randn(p.shape, generator=g), model.config.get_text_config()))
    for name, b in sorted(model.named_buffers()):
        if biases_choice(name):
            b.copy_(0.2 * torch.randn(b.shape, generator=g))
        elif name.endswith("layer_scalar"):
            b.copy_(spread(name, torch.randn(b.shape, generator=g), model.config.get_text_config()))


def save_options(model, spec):
    options = {}
    if spec.get("fused") not in (None, "released"):
        options["save_original_format"] = False
    if spec.get("shards"):
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        options["max_shard_size"] = int(size * 1.1 / spec["shards"])
    return options


def check_files(case, spec, folder):
    """Asserts that transformers wrote the files in the requested form."""
    family = spec["family"]
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == spec.get("shards", 1), files
    names = []
    for file in files:
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                names.append(name)
                wanted = F32 if kept_wide(name, family) else spec["disk"]
                assert tensors.get_tensor(name).dtype == wanted, name
    fused = any(name.endswith(("experts.gate_up_proj", "experts.up_proj")) for name in names)
    assert fused == bool(spec.get("fused")), (case, "expert layout on disk")
    head = "score.weight" if family in TAGGERS else "lm_head.weight"
    assert any(name.endswith(head) for name in names) != spec["args"].get("tie_word_embeddings", False), (case, "head on disk")


def give_own_head(case, folder):
    """Stores a head that differs from the embedding although the config ties them; the reference uses the stored
    head."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    embedding = tensors["model.embed_tokens.weight"]
    noise = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(seed_of(case + " head")))
    tensors["lm_head.weight"] = (noise * 1.3 / math.sqrt(embedding.shape[-1])).to(embedding.dtype)
    save_file(tensors, file, metadata={"format": "pt"})


def leave_out(keys, folder, instead):
    """Removes keys of the config with the class's default values, because published configs lack them. `instead`
    contains equivalent keys for some of the removed keys."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    before = AutoConfig.from_pretrained(folder).to_dict()
    for key in keys:
        del config.get("text_config", config)[key]
    config.get("text_config", config).update(instead)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    after = AutoConfig.from_pretrained(folder).to_dict()  # also has keys that are unknown to the class
    assert {key: after.get(key) for key in before} == before, "the class's default differs"


def seed_of(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def new_model(spec):
    """A model of the case's config, or the larger model that contains it."""
    config = spec["config"](**{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, **spec["args"]})
    return around(spec["inside"], config) if "inside" in spec else auto_class(spec["family"]).from_config(config)


def write_checkpoint(case, spec, folder):
    """Writes a checkpoint. `spec` has the form of an entry of CASES; the case's name is the seed of the weights."""
    family = spec["family"]
    model = new_model(spec)
    randomise(model, seed_of(case))
    for name, t in [*model.named_parameters(), *model.named_buffers()]:
        t.data = t.data.to(F32 if kept_wide(name, family) else spec["disk"])
    model.save_pretrained(folder, **save_options(model, spec))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if "inside" in spec:
        publish_names(spec, folder)
        publish_config(spec, folder)
    check_files(case, spec, folder)
    if spec.get("own_head"):
        give_own_head(case, folder)
    leave_out(spec.get("absent", ()), folder, spec.get("instead", {}))
    if spec.get("mtp"):
        hide_last_layer(folder, model.config.num_hidden_layers)
    if "quantization" in spec:
        store_quantised(folder, spec["quantization"])
