"""Records the values of a forward pass of the reference, with hooks on transformers' modules."""

import torch

from golden.checkpoint import biases_choice
from golden.routing import check_routing, choice_scores, has_groups, router_scores, routing_of

FFN_NORMS = ("pre_feedforward_layernorm", "pre_mlp_layernorm", "post_attention_layernorm", "ffn_norm")  # names of the norm before the feed-forward part
# Families whose block multiplies the experts' sum instead of the weights, and the config's key of the factor.
SCALED_SUMS = {"minimax_m3_vl_text": "routed_scaling_factor", "laguna": "moe_routed_scaling_factor"}
MOE_BLOCKS = ("block_sparse_moe", "mlp", "feed_forward")  # transformers' names of the feed-forward block


def choice_bias(block):
    """The correction bias [E] of an MoE block, which affects only the selection of experts; None if it has none."""
    for name, tensor in [*block.named_parameters(), *block.named_buffers()]:
        if biases_choice(name):
            return tensor.detach().reshape(-1)
    return None


class Capture:
    """Forward hooks on the modules of a model; `take` returns the values of the last pass. Reads the weights of a layer only
    while the layer runs, so that a model may load them temporarily. `histories` maps a layer of zaya to the rows [T,C] of
    each pass since the last clear(), `choice_biases` maps an MoE layer to its correction bias, and `expert_scales` to the
    factors of its experts' weights."""

    def __init__(self, model):
        self.seen, self.histories = {}, {}
        self.config = model.config
        self.moe_layers, self.choice_biases, self.expert_scales = [], {}, {}
        self.top_k = {}  # layer → experts per token; absent: the config's number (golden.top_k)
        base = model.model
        if self.config.model_type == "zaya":
            base.embed_tokens.register_forward_hook(self.keep_output("embed"))
        else:
            base.layers[0].register_forward_pre_hook(self.keep_input("embed"))
        for i, layer in enumerate(base.layers):
            self.hook_layer(i, layer)

    def hook_layer(self, i, layer):
        layer.register_forward_hook(self.keep_output(f"L{i:02}.ffn_out"))
        if hasattr(layer, "mixer"):
            return self.hook_lone_part(i, layer)
        if self.config.model_type == "cohere2_moe":
            self.hook_parallel(i, layer)
        else:
            self.hook_feed_forward_input(i, layer)
        if hasattr(getattr(layer, "self_attn", None), "qkv_proj"):
            layer.self_attn.qkv_proj.register_forward_pre_hook(self.keep_history(i))
        block = next(getattr(layer, name) for name in MOE_BLOCKS if hasattr(layer, name))
        block = getattr(block, "text_moe", block)  # ernie4_5_vl_moe also has a block for images
        if hasattr(layer, "experts"):  # gemma4_text: in addition to the dense MLP
            self.hook_moe(i, layer)
        elif hasattr(block, "experts"):
            self.hook_moe(i, block)

    def hook_feed_forward_input(self, i, layer):
        """The stream after attention is the input of the norm before the feed-forward part."""
        norm = next(getattr(layer, name) for name in FFN_NORMS if hasattr(layer, name))
        part = norm if hasattr(layer, "input_layernorm") or not hasattr(layer, "mlp") else layer.mlp  # flex_olmo has no norm there
        part.register_forward_pre_hook(self.keep_input(f"L{i:02}.attn_out"))

    def hook_parallel(self, i, layer):
        """In a parallel block, no module has the stream after attention as its input: adds the layer's input to the output of
        attention."""
        name = f"L{i:02}.attn_out"
        layer.register_forward_pre_hook(self.keep_input(name))
        def add(_module, _args, out):
            self.keep(name, self.seen[name] + out[0])
        layer.self_attn.register_forward_hook(add)

    def hook_lone_part(self, i, layer):
        """Hooks a layer with a single part. The stream after the mixer is the output of a layer with only a mixer, and
        the input of a layer with only a feed-forward part."""
        if layer.block_type in ("moe", "mlp"):
            layer.register_forward_pre_hook(self.keep_input(f"L{i:02}.attn_out"))
        else:
            layer.register_forward_hook(self.keep_output(f"L{i:02}.attn_out"))
        if hasattr(layer.mixer, "experts"):
            self.hook_moe(i, layer.mixer)

    def hook_moe(self, i, block):
        self.moe_layers.append(i)
        router = block.router if hasattr(block, "router") else block.gate
        if self.config.model_type == "gemma4_text":  # its router returns scores
            router.proj.register_forward_hook(self.keep_output(f"L{i:02}.router_logits"))
            router.register_forward_hook(self.keep_expert_scales(i))
        router.register_forward_hook(self.keep_router(i, f"L{i:02}."))
        router.register_forward_hook(self.keep_choice_bias(i, block))

    def experts_of(self, layer):
        """Experts per token in a layer."""
        return self.top_k.get(layer, self.config.num_experts_per_tok)

    def keep(self, name, tensor):
        self.seen[name] = tensor.detach().clone()

    def keep_output(self, name):
        def hook(_module, _args, out):
            self.keep(name, out[0] if isinstance(out, tuple) else out)
        return hook

    def keep_input(self, name):
        def hook(_module, args):
            self.keep(name, args[0])
        return hook

    def keep_history(self, layer):
        def hook(module, args):
            x = args[0][0]
            delayed = torch.nn.functional.linear(x, module.v_proj_delayed.weight)
            rows = torch.cat([module.q_proj(x), module.k_proj(x), delayed], dim=-1)
            self.histories.setdefault(layer, []).append(rows)
        return hook

    def keep_choice_bias(self, layer, block):
        def hook(_module, _args, _out):
            bias = choice_bias(block)
            if bias is not None:
                self.choice_biases[layer] = bias.clone()
        return hook

    def keep_expert_scales(self, layer):
        def hook(module, _args, _out):
            self.expert_scales[layer] = module.per_expert_scale.detach().clone()
        return hook

    def keep_router(self, layer, layer_prefix):
        def hook(_module, _args, out):
            if len(out) == 2:  # llama4: weights of all experts, 0 for those that are not picked
                weights, logits = out
                weights, experts = weights.topk(self.experts_of(layer), dim=-1)
            elif len(out) == 4:  # zaya: a pick of the null slot is reported as expert 0 with weight 0
                logits, weights, experts, state = out
                experts = experts.masked_fill(weights == 0, self.config.num_experts)
                self.keep(layer_prefix + "router_state", state)
            else:
                logits, weights, experts = out
            if self.config.model_type == "openai_privacy_filter":
                weights = weights * self.experts_of(layer)  # its experts multiply by k again
            if self.config.model_type in SCALED_SUMS:
                weights = weights * getattr(self.config, SCALED_SUMS[self.config.model_type])
            if self.config.model_type != "gemma4_text":
                self.keep(layer_prefix + "router_logits", logits)
            self.keep(layer_prefix + "weights", weights)
            self.keep(layer_prefix + "experts", experts)
        return hook

    def take(self, logits):
        """Returns the tensors of the last pass by name, without the batch axis. Checks routers against ROUTING."""
        step = {name: t.squeeze(0) if t.dim() == 3 else t for name, t in self.seen.items()}
        self.seen = {}
        step["logits"] = logits[0].detach().clone()
        for i in self.moe_layers:
            prefix = f"L{i:02}."
            scores = router_scores(self.config, step[prefix + "router_logits"])
            step[prefix + "router_scores"] = scores
            if i in self.choice_biases or has_groups(self.config):
                by = step[prefix + "router_logits"] if routing_of(self.config).get("choice") == "logits" else scores
                step[prefix + "choice_scores"] = choice_scores(self.config, by, self.choice_biases.get(i))
            check_routing(self.config, step, prefix, self.experts_of(i), self.expert_scales.get(i))
        return step
