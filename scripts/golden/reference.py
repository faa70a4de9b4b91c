"""Runs transformers' implementation of a model, in float32 with eager attention, on the weights of a checkpoint."""

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
from golden.request import Refused, gguf_file, pretrained

TOLERANCE = 1e-4  # between decode steps and one pass over all tokens, relative to a tensor's largest value if above 1


@dataclasses.dataclass
class Greedy:
    """A prompt, its greedy continuation, and the smallest gap of the two largest logits of a step."""

    prompt: list
    tokens: list
    gap: float


@dataclasses.dataclass
class Run:
    """The reference's results for one text. A model that labels tokens has one step and no caches."""

    steps: list  # per step: tensors by name
    caches: dict = dataclasses.field(default_factory=dict)
    worst: float = 0.0  # the largest difference between decode steps and one pass over all tokens
    apart: list = dataclasses.field(default_factory=list)  # names of tensors that differ by more than TOLERANCE
    greedy: Greedy = None


# ---------------------------------------------------------------- loading ----

def choose_factors(rotary):
    """Fixes Phi's rotation: transformers 5.23 multiplies the cosines by long_mscale in long texts but never uses
    long_factor, because it does not pass the length to rope_init_fn. The release's code and transformers 4 do."""
    forward, init = rotary.forward, rotary.rope_init_fn

    def with_length(x, position_ids=None):
        rotary.rope_init_fn = lambda config: init(config, x.device, seq_len=int(position_ids.max()) + 1)
        return forward(x, position_ids)

    rotary.forward = with_length


def load_balancing_biases(model, checkpoint):
    """Restores the null slot's bias: transformers 5.23 resets it to its initial -1 after loading."""
    buffers = dict(model.named_buffers())
    for file in checkpoint.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                if name.endswith("balancing_biases"):
                    buffers[name].copy_(tensors.get_tensor(name))


def config_of(checkpoint, family=None):
    """The config of a folder, read as one of `family` if given, because some releases have another model_type. Makes
    transformers dequantize stored weights at loading to the model's type, as it does only on a CPU."""
    if gguf_file(checkpoint):
        folder, file = pretrained(checkpoint)
        return AutoConfig.from_pretrained(folder, **file)
    if family:
        config = CONFIG_MAPPING[family].from_pretrained(checkpoint)
        config.model_type = family
    else:
        config = AutoConfig.from_pretrained(checkpoint)
    if hasattr(config, "quantization_config"):
        config.quantization_config["dequantize"] = True
    return config


def loaded(auto, checkpoint, config):
    """The model as loaded by transformers. For a GGUF file, checks that every tensor was found with the model's sizes,
    because transformers initialises missing ones with random numbers."""
    folder, file = pretrained(checkpoint)
    options = dict(config=config, dtype=F32, attn_implementation="eager")
    if not file:
        return auto.from_pretrained(folder, **options)
    try:
        model, found = auto.from_pretrained(folder, output_loading_info=True, **options, **file)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise Refused(f"transformers cannot load {gguf_file(checkpoint)}: {error}") from error
    missing = sorted(found["missing_keys"]) + sorted(found["mismatched_keys"])
    if missing or found["unexpected_keys"]:
        raise Refused(f"transformers reads {gguf_file(checkpoint)} as another model: "
                      f"{(missing or sorted(found['unexpected_keys']))[0]} does not fit; pass the checkpoint that it was "
                      "converted from")
    return model


def from_checkpoint(checkpoint, config):
    """transformers' model in float32 with eager attention and eager experts."""
    auto = AutoModelForImageTextToText if config.model_type in OUTER else auto_class(config.model_type)
    model = loaded(auto, checkpoint, config)
    model.config._experts_implementation = "eager"
    if not gguf_file(checkpoint):  # GGUF files are already decoded to F32
        model = model.float()  # transformers keeps the stored type of weights that are not quantized
    return text_part(model.eval())


def open_time_steps(model):
    """Fixes the time step: transformers 5.23 clamps it from below by time_step_min in passes over several tokens, but not
    for single tokens. The releases' code clamps only by time_step_limit, (0, inf)."""
    for layer in model.model.layers:
        if hasattr(layer.mixer, "time_step_limit"):
            layer.mixer.time_step_limit = (0.0, float("inf"))


def adapt(model):
    """Fixes differences of transformers from the releases, and adds the hooks as `moec_capture`."""
    if model.config.model_type == "phimoe":
        choose_factors(model.model.rotary_emb)
    if model.config.model_type == "gemma4_text":
        model.config.num_experts_per_tok = model.config.top_k_experts  # the common name
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
    """Context in which the weights of a layer's attention are in memory."""
    parts = getattr(model, "moec_parts", None)  # golden.streamed
    return parts.loaded(layer, only=".self_attn.") if parts else contextlib.nullcontext()


# ----------------------------------------------------------------- caches ----

class RecordingCache(DynamicCache):
    """transformers' cache, extended to keep all rows, including rows that a sliding layer drops."""

    def __init__(self, config):
        super().__init__(config=config)
        self.rows, self.fed = {}, 0  # fed: number of tokens in all passes so far

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.rows.setdefault(layer_idx, []).append((key_states.detach().clone(), value_states.detach().clone()))
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def has_attention(self):
        return not self.layers or any(isinstance(layer, CacheLayerMixin) for layer in self.layers)

    # transformers 5.23 reads the length from the first attention layer, and fails if there is none.
    def get_seq_length(self, layer_idx=0):
        return super().get_seq_length(layer_idx) if self.has_attention() else self.fed

    def get_mask_sizes(self, query_length, layer_idx=0):
        return super().get_mask_sizes(query_length, layer_idx) if self.has_attention() else (self.fed + query_length, 0)

    def all_rows(self, layer):
        k, v = (torch.cat(part, dim=-2)[0] for part in zip(*self.rows[layer]))
        kept = self.layers[layer].keys[0]  # rows that are still in the cache
        assert torch.equal(k[:, k.shape[1] - kept.shape[1]:], kept)
        return k, v


def in_order(config, rotated):
    """Reorders the rotated dims of latent attention to the order of the projection, as in shards. If V3 rotates pairs
    (2i, 2i + 1), transformers returns all first halves, then all second ones. kimi_linear does not rotate."""
    if config.model_type in ("deepseek_v2", "kimi_linear") or not getattr(config, "rope_interleave", True):
        return rotated
    return rotated.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def latent_caches(config, attention, latent, rotated):
    """Rows of latent attention as in shards, rotated dims first: the latent shared by all heads, and each head's keys and
    values, expanded by the reference."""
    keys, values = (t[0] for t in attention.expand_kv(latent[None], rotated[None]))
    content, of_heads = keys.split([config.qk_nope_head_dim, config.qk_rope_head_dim], dim=-1)
    return {
        "k_cache": torch.cat([in_order(config, rotated), latent], -1),
        "v_cache": latent,
        "k_heads": torch.cat([in_order(config, of_heads), content], -1),
        "v_heads": values,
    }


def cache_rows(model, cache, count):
    """Cache rows of all `count` tokens by name, and zaya's histories. Layers without attention have none."""
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
    """Compares the steps with one pass over all tokens. Returns the largest difference, and the names of the tensors that
    differ by more than TOLERANCE, or at all for experts."""
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
    """Runs one pass over tokens; returns the recorded tensors."""
    step = model.moec_capture.take(model(torch.tensor([tokens]), **options).logits)
    return {**step, "tokens": torch.tensor(tokens)}


def greedy_of(prompt, steps):
    """The greedy continuation, from the last row of each step."""
    last = torch.stack([step["logits"][-1] for step in steps])
    return Greedy(prompt, last.argmax(-1).tolist(), token_gap(last))


@torch.no_grad()
def run_steps(model, prompt, decode, begin=lambda label: None):
    """Runs prefill and decode steps with the cache, and compares them with one pass over all tokens. `decode` has one token
    per step, or None for the most likely token of the previous step. Calls `begin` before each pass."""
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
    """Runs the only step of a model that labels tokens."""
    return run_pass(model, tokens)


@torch.no_grad()
def run_greedy(model, prompt, count):
    """Returns the text of transformers' generate, checked against the largest logits of one pass over that text. The
    two may differ if logits tie."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                         do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = got[0, len(prompt):].tolist()
    assert len(tokens) == count
    logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1:-1]
    gap = token_gap(logits)
    assert logits.argmax(-1).tolist() == tokens or gap < TOLERANCE
    return Greedy(prompt, tokens, gap)
