"""Runs transformers' own implementation of a model, in float32 with eager attention, on the weights of a checkpoint."""

import contextlib
import dataclasses

import torch
from safetensors import safe_open
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForImageTextToText, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from golden.capture import Capture
from golden.checkpoint import F32, auto_class
from golden.gaps import token_gap
from golden.nested import OUTER, text_part

TOLERANCE = 1e-4  # of decode steps and one pass over everything, relative to a tensor's largest value if above 1


@dataclasses.dataclass
class Greedy:
    """A prompt, its greedy continuation, and the smallest gap between the two largest logits of a step."""

    prompt: list
    tokens: list
    gap: float


@dataclasses.dataclass
class Run:
    """What the reference computed for one text. A model that labels tokens has one step, and no caches."""

    steps: list  # the tensors of each step by name
    caches: dict = dataclasses.field(default_factory=dict)
    worst: float = 0.0  # the largest difference of decode steps and one pass over everything
    apart: list = dataclasses.field(default_factory=list)  # the tensors that differ there by more than TOLERANCE
    greedy: Greedy = None


# ---------------------------------------------------------------- loading ----

def choose_factors(rotary):
    """transformers 5.23 multiplies Phi's cosines by long_mscale in long texts, but never uses long_factor: it does not
    pass the length by which its own rope_init_fn chooses. The release's code and transformers 4 do."""
    forward, init = rotary.forward, rotary.rope_init_fn

    def with_length(x, position_ids=None):
        rotary.rope_init_fn = lambda config: init(config, x.device, seq_len=int(position_ids.max()) + 1)
        return forward(x, position_ids)

    rotary.forward = with_length


def load_balancing_biases(model, checkpoint):
    """transformers 5.23 resets the null slot's bias to its initial -1 after loading, whatever the checkpoint says."""
    buffers = dict(model.named_buffers())
    for file in checkpoint.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                if name.endswith("balancing_biases"):
                    buffers[name].copy_(tensors.get_tensor(name))


def config_of(checkpoint, family=None):
    """The config of a folder, read as one of `family` where that is given: some releases have a model_type of their
    own. Weights stored in few bits are decoded while they are loaded, by transformers and to the type of the model;
    anywhere but on a CPU it would compute with them as they are."""
    if family:
        config = CONFIG_MAPPING[family].from_pretrained(checkpoint)
        config.model_type = family
    else:
        config = AutoConfig.from_pretrained(checkpoint)
    if hasattr(config, "quantization_config"):
        config.quantization_config["dequantize"] = True
    return config


def from_checkpoint(checkpoint, config):
    """transformers' model in float32 with eager attention and eager experts."""
    auto = AutoModelForImageTextToText if config.model_type in OUTER else auto_class(config.model_type)
    model = auto.from_pretrained(checkpoint, config=config, dtype=F32, attn_implementation="eager")
    model.config._experts_implementation = "eager"
    return text_part(model.eval().float())  # beside decoded weights transformers leaves the others as they are stored


def open_time_steps(model):
    """transformers 5.23 clamps the time step from below by time_step_min in a pass over several tokens, and not in one
    over a single token; the releases' own code clamps by time_step_limit, (0, inf), alone."""
    for layer in model.model.layers:
        if hasattr(layer.mixer, "time_step_limit"):
            layer.mixer.time_step_limit = (0.0, float("inf"))


def adapt(model):
    """Mends what transformers does differently from the releases, and adds the hooks as `moec_capture`."""
    if model.config.model_type == "phimoe":
        choose_factors(model.model.rotary_emb)
    if model.config.model_type == "gemma4_text":
        model.config.num_experts_per_tok = model.config.top_k_experts  # the name that others have
    if model.config.model_type == "nemotron_h":
        open_time_steps(model)
    model.moec_capture = Capture(model)


def load(checkpoint, family=None):
    """The model of a folder, with all its weights in memory."""
    model = from_checkpoint(checkpoint, config_of(checkpoint, family))
    if model.config.model_type == "zaya":
        load_balancing_biases(model, checkpoint)
    adapt(model)
    return model


def weights_of_attention(model, layer):
    """A context in which the weights of a layer's attention are in memory."""
    parts = getattr(model, "moec_parts", None)  # golden.streamed
    return parts.loaded(layer, only=".self_attn.") if parts else contextlib.nullcontext()


# ----------------------------------------------------------------- caches ----

class RecordingCache(DynamicCache):
    """transformers' cache that also keeps every row that it was given, also those that a sliding layer drops."""

    def __init__(self, config):
        super().__init__(config=config)
        self.rows, self.fed = {}, 0  # the tokens of the passes so far

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.rows.setdefault(layer_idx, []).append((key_states.detach().clone(), value_states.detach().clone()))
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def has_attention(self):
        return not self.layers or any(isinstance(layer, CacheLayerMixin) for layer in self.layers)

    # transformers 5.23 asks the first layer of attention for lengths, and fails if there is none.
    def get_seq_length(self, layer_idx=0):
        return super().get_seq_length(layer_idx) if self.has_attention() else self.fed

    def get_mask_sizes(self, query_length, layer_idx=0):
        return super().get_mask_sizes(query_length, layer_idx) if self.has_attention() else (self.fed + query_length, 0)

    def all_rows(self, layer):
        k, v = (torch.cat(part, dim=-2)[0] for part in zip(*self.rows[layer]))
        kept = self.layers[layer].keys[0]  # what the cache itself still holds
        assert torch.equal(k[:, k.shape[1] - kept.shape[1]:], kept)
        return k, v


def in_order(config, rotated):
    """The rotated dims of latent attention in the order of the projection, as shards hold them. Where V3 rotates pairs
    (2i, 2i + 1), transformers returns first all the first halves, then the second ones. kimi_linear does not rotate."""
    if config.model_type in ("deepseek_v2", "kimi_linear") or not getattr(config, "rope_interleave", True):
        return rotated
    return rotated.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def latent_caches(config, attention, latent, rotated):
    """The rows of latent attention as shards hold them, rotated dims first: the latent that all heads share, and the
    keys and values of each head, expanded by the reference."""
    keys, values = (t[0] for t in attention.expand_kv(latent[None], rotated[None]))
    content, of_heads = keys.split([config.qk_nope_head_dim, config.qk_rope_head_dim], dim=-1)
    return {
        "k_cache": torch.cat([in_order(config, rotated), latent], -1),
        "v_cache": latent,
        "k_heads": torch.cat([in_order(config, of_heads), content], -1),
        "v_heads": values,
    }


def cache_rows(model, cache, count):
    """The cache rows of all `count` tokens by name, and zaya's histories. Layers without attention have none."""
    caches = {f"L{layer:02}.history": torch.cat(rows) for layer, rows in model.moec_capture.histories.items()}
    for layer in cache.rows:
        k, v = cache.all_rows(layer)
        assert k.shape[1] == count
        block = model.model.layers[layer]
        attention = block.mixer if hasattr(block, "mixer") else block.self_attn
        named = {"k_cache": k, "v_cache": v}
        if hasattr(attention, "expand_kv"):
            with weights_of_attention(model, layer):
                named = latent_caches(model.config, attention, k, v)
        caches.update({f"L{layer:02}.{name}": rows for name, rows in named.items()})
    return caches


# ---------------------------------------------------------------- running ----

def compare_with_whole(steps, whole):
    """The differences of the steps and one pass over everything: the largest one of the values, and the names of the
    tensors that differ by more than TOLERANCE, or for experts at all."""
    worst, apart = 0.0, []
    for name, full in whole.items():
        parts = torch.cat([step[name] for step in steps])
        if name.endswith("experts"):
            differs = not torch.equal(parts, full)
        else:
            difference = (parts - full).abs().max().item()
            worst = max(worst, difference)
            differs = difference >= TOLERANCE * max(1.0, full.abs().max().item())
        if differs:
            apart.append(name)
    return worst, apart


def run_pass(model, tokens, **options):
    """One pass of the model over tokens: what it records."""
    step = model.moec_capture.take(model(torch.tensor([tokens]), **options).logits)
    return {**step, "tokens": torch.tensor(tokens)}


def greedy_of(prompt, steps):
    """The continuation that the last row of each step chooses."""
    last = torch.stack([step["logits"][-1] for step in steps])
    return Greedy(prompt, last.argmax(-1).tolist(), token_gap(last))


@torch.no_grad()
def run_steps(model, prompt, decode, begin=lambda label: None):
    """Prefill and decode steps on the cache, compared with one pass over everything. `decode` has a token for each
    step, or None for the one that the step before chooses. `begin` is called before each pass."""
    capture = model.moec_capture
    capture.histories.clear()
    cache = RecordingCache(model.config)
    fed, steps = [], []
    for label, tokens in zip(["prefill", *(f"decode{i}" for i in range(len(decode)))],
                             [prompt, *([token] for token in decode)]):
        begin(label)
        tokens = [steps[-1]["logits"][-1].argmax().item()] if tokens == [None] else tokens
        positions = torch.arange(len(fed), len(fed) + len(tokens))[None]
        steps.append(run_pass(model, tokens, past_key_values=cache, use_cache=True, position_ids=positions))
        fed += tokens
        cache.fed = len(fed)
    caches = cache_rows(model, cache, len(fed))
    begin("comparison")
    whole = run_pass(model, fed, use_cache=False)
    return Run(steps, caches, *compare_with_whole(steps, whole))


@torch.no_grad()
def label_step(model, tokens):
    """Runs a model that labels tokens; this is its only step."""
    return run_pass(model, tokens)


@torch.no_grad()
def run_greedy(model, prompt, count):
    """The text that transformers' generate writes, checked against the largest logits of one pass over it. They may
    differ where two logits tie."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                         do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = got[0, len(prompt):].tolist()
    assert len(tokens) == count
    logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1:-1]
    gap = token_gap(logits)
    assert logits.argmax(-1).tolist() == tokens or gap < TOLERANCE
    return Greedy(prompt, tokens, gap)
