"""Runs of the real transformers implementation, in float32 with eager attention, on the weights of a checkpoint."""

import dataclasses

import torch
from safetensors import safe_open
from transformers import AutoConfig, DynamicCache

from golden.capture import Capture
from golden.checkpoint import F32, auto_class
from golden.gaps import token_gap

TOLERANCE = 1e-4  # decode steps against one pass over the whole sequence


@dataclasses.dataclass
class Greedy:
    """A prompt, transformers' greedy continuation and the smallest top-1 to top-2 logit gap along the way."""

    prompt: list
    tokens: list
    gap: float


@dataclasses.dataclass
class Run:
    """What the reference computed for one text. A model that labels tokens has one step and nothing else."""

    steps: list  # the tensors of each step by name
    caches: dict = dataclasses.field(default_factory=dict)
    worst: float = 0.0  # largest difference of decode steps and one pass over everything
    greedy: Greedy = None


# ---------------------------------------------------------------- loading ----

def choose_factors(rotary):
    """transformers 5.23 multiplies Phi's cosines by long_mscale in long texts, but never uses
    long_factor: it does not pass on the length by which its own rope_init_fn chooses. The release's
    code and transformers 4 pass it on."""
    forward, init = rotary.forward, rotary.rope_init_fn

    def with_length(x, position_ids=None):
        rotary.rope_init_fn = lambda config: init(config, x.device, seq_len=int(position_ids.max()) + 1)
        return forward(x, position_ids)

    rotary.forward = with_length


def load_balancing_biases(model, checkpoint):
    """transformers 5.23 sets the null slot's bias to its initial -1 behind the loading, whatever the
    checkpoint says."""
    buffers = dict(model.named_buffers())
    for file in checkpoint.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                if name.endswith("balancing_biases"):
                    buffers[name].copy_(tensors.get_tensor(name))


def config_of(checkpoint):
    """What is stored in few bits is decoded while it is loaded, by transformers and to the type of the model. Elsewhere
    than on a CPU it would compute with it as it is."""
    config = AutoConfig.from_pretrained(checkpoint)
    if hasattr(config, "quantization_config"):
        config.quantization_config["dequantize"] = True
    return config


def load(checkpoint):
    """The model of a folder; its hooks are `moec_capture`."""
    config = config_of(checkpoint)
    family = config.model_type
    model = auto_class(family).from_pretrained(checkpoint, config=config, dtype=F32, attn_implementation="eager")
    model.config._experts_implementation = "eager"
    model.eval().float()  # beside decoded weights transformers leaves the others as they are stored
    if family == "phimoe":
        choose_factors(model.model.rotary_emb)
    if family == "zaya":
        load_balancing_biases(model, checkpoint)
    model.moec_capture = Capture(model)
    return model


# ----------------------------------------------------------------- caches ----

class RecordingCache(DynamicCache):
    """transformers' cache that also keeps every row it was given."""

    def __init__(self, config):
        super().__init__(config=config)
        self.rows = {}

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.rows.setdefault(layer_idx, []).append((key_states.detach().clone(), value_states.detach().clone()))
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def all_rows(self, layer):
        k, v = (torch.cat(part, dim=-2)[0] for part in zip(*self.rows[layer]))
        kept = self.layers[layer].keys[0]  # what the cache itself still holds
        assert torch.equal(k[:, k.shape[1] - kept.shape[1]:], kept)
        return k, v


def in_order(config, rotated):
    """Rotated position dims as the shards hold them: in the order of the projection. Where V3 rotates pairs
    (2i, 2i + 1), transformers leaves their halves apart."""
    if config.model_type == "deepseek_v2" or not config.rope_interleave:
        return rotated
    return rotated.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def latent_caches(config, attention, latent, rotated):
    """The rows of latent attention as the shards hold them, position dims first: the latent once for
    all heads, and the keys and values of each head, as the reference expands them."""
    keys, values = (t[0] for t in attention.expand_kv(latent[None], rotated[None]))
    content, of_heads = keys.split([config.qk_nope_head_dim, config.qk_rope_head_dim], dim=-1)
    return {
        "k_cache": torch.cat([in_order(config, rotated), latent], -1),
        "v_cache": latent,
        "k_heads": torch.cat([in_order(config, of_heads), content], -1),
        "v_heads": values,
    }


def cache_rows(model, cache, count):
    """All rows of `count` tokens by name, and zaya's histories."""
    caches = {f"L{layer:02}.history": torch.cat(rows) for layer, rows in model.moec_capture.histories.items()}
    for layer in range(model.config.num_hidden_layers):
        k, v = cache.all_rows(layer)
        assert k.shape[1] == count
        attention = model.model.layers[layer].self_attn
        named = {"k_cache": k, "v_cache": v}
        if hasattr(attention, "expand_kv"):
            named = latent_caches(model.config, attention, k, v)
        caches.update({f"L{layer:02}.{name}": rows for name, rows in named.items()})
    return caches


# ---------------------------------------------------------------- running ----

def compare_with_whole(steps, whole):
    """The largest difference of the steps and one pass over everything, which is below TOLERANCE."""
    worst = 0.0
    for name, full in whole.items():
        parts = torch.cat([step[name] for step in steps])
        if name.endswith("experts"):
            assert torch.equal(parts, full), name
        else:
            worst = max(worst, (parts - full).abs().max().item())
    assert worst < TOLERANCE, f"decode and full pass differ by {worst}"
    return worst


@torch.no_grad()
def run_steps(model, prompt, decode):
    """Prefill and decode on the cache; compared with one pass over everything."""
    capture = model.moec_capture
    capture.histories.clear()
    cache = RecordingCache(model.config)
    steps, at = [], 0
    for tokens in [prompt, *[[t] for t in decode]]:
        ids, positions = torch.tensor([tokens]), torch.arange(at, at + len(tokens))[None]
        out = model(ids, past_key_values=cache, use_cache=True, position_ids=positions)
        steps.append(capture.take(out.logits))
        steps[-1]["tokens"] = torch.tensor(tokens)
        at += len(tokens)
    caches = cache_rows(model, cache, at)
    whole = capture.take(model(torch.tensor([prompt + decode]), use_cache=False).logits)
    return Run(steps, caches, compare_with_whole(steps, whole))


@torch.no_grad()
def label_step(model, tokens):
    """The only step of a model that labels tokens."""
    step = model.moec_capture.take(model(torch.tensor([tokens])).logits)
    step["tokens"] = torch.tensor(tokens)
    return step


@torch.no_grad()
def run_greedy(model, prompt, count):
    """transformers' generate, which takes the largest logit of one pass over everything, but for ties."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                         do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = got[0, len(prompt):].tolist()
    assert len(tokens) == count
    logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1:-1]
    gap = token_gap(logits)
    assert logits.argmax(-1).tolist() == tokens or gap < TOLERANCE
    return Greedy(prompt, tokens, gap)
