"""Text models that are part of larger models with image towers."""

import json

from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModelForImageTextToText, CONFIG_MAPPING

# The larger models by model_type: the smallest tower that the class accepts, and additional required keys.
TOWER = dict(hidden_size=8, intermediate_size=8)
OUTER = {
    "kimi_k25": dict(vision_config=dict(**TOWER, num_attention_heads=2, num_hidden_layers=1, pos_emb_height=2,
                                        pos_emb_width=2, patch_size=2),
                     projection_hidden_size=32),
    "qwen3_vl_moe": dict(vision_config=dict(**TOWER, num_heads=2, depth=1, patch_size=2, out_hidden_size=8,
                                            num_position_embeddings=4, deepstack_visual_indexes=[0])),
    "qwen3_5_moe": dict(vision_config=dict(**TOWER, num_heads=2, depth=1, patch_size=2, out_hidden_size=8,
                                           num_position_embeddings=4)),
    "glm4v_moe": dict(vision_config=dict(**TOWER, num_heads=2, depth=1, patch_size=2, image_size=4, out_hidden_size=8)),
    "llama4": dict(vision_config=dict(hidden_size=8, intermediate_size=32, num_attention_heads=2, num_hidden_layers=1,
                                      vision_output_dim=8, projector_input_dim=8, projector_output_dim=8, image_size=4,
                                      patch_size=2)),
    "ernie4_5_vl_moe": dict(vision_config=dict(**TOWER, num_heads=2, depth=1, patch_size=2)),
    "gemma4": dict(vision_config=dict(**TOWER, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1,
                                      head_dim=4, patch_size=2, position_embedding_size=4, pooling_kernel_size=1)),
    "minimax_m3_vl": dict(vision_config=dict(hidden_size=16, intermediate_size=8, num_attention_heads=2,
                                             num_hidden_layers=1, image_size=4, patch_size=2),
                          projector_hidden_size=8),
}


# transformers 5.23 does not write the names that it reads, because it confuses "layers" of the text model with the
# tower's.
SAVED = {"kimi_k25": [("language_model.model.blocks.", "language_model.model.layers."),
                      ("model.mm_projector.", "mm_projector.")]}


def publish_names(spec, folder):
    """Renames the tensors of a checkpoint from transformers to published names, and transposes the experts if the case
    requires it."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for saved, published in SAVED.get(spec["inside"], []):
        tensors = {published + name.removeprefix(saved) if name.startswith(saved) else name: tensor
                   for name, tensor in tensors.items()}
    if spec.get("fused") == "transposed":
        tensors = {name: tensor.mT.contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}
    save_file(tensors, file, metadata={"format": "pt"})


def publish_minimax_m3(text):
    """Converts the text_config to the release's keys of layers and indexer."""
    types, flags = text.pop("layer_types"), text.pop("mlp_layer_types")
    text["moe_layer_freq"] = [int(kind == "sparse") for kind in flags]
    indexed = [int(kind == "minimax_m3_sparse") for kind in types]
    text["sparse_attention_config"] = {
        "use_sparse_attention": True, "sparse_score_type": "max", "sparse_init_block": 0,
        "sparse_attention_freq": indexed, "sparse_disable_index_value": indexed,
        "sparse_num_index_heads": text.pop("index_n_heads"), "sparse_index_dim": text.pop("index_head_dim"),
        "sparse_block_size": text.pop("index_block_size"), "sparse_topk_blocks": text.pop("index_topk_blocks"),
        "sparse_local_block": text.pop("index_local_blocks")}
    text["hidden_act"] = "swigluoai"
    text |= {key: text["rope_parameters"][key] for key in ("rope_theta", "partial_rotary_factor")}
    del text["rope_parameters"]


PUBLISHED = {"minimax_m3_vl": publish_minimax_m3}


def publish_config(spec, folder):
    """Converts the text_config of a config from transformers to published keys, if these differ. The class must read
    the same values from both."""
    publish = PUBLISHED.get(spec["inside"])
    if publish is None:
        return
    path = folder / "config.json"
    before = AutoConfig.from_pretrained(folder).to_dict()
    config = json.loads(path.read_text())
    publish(config["text_config"])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    assert AutoConfig.from_pretrained(folder).to_dict() == before, "the class reads other values"


def around(outer, text):
    """A larger model of the type `outer` with the text model of the config `text`. Ties its head if the text model does."""
    config = CONFIG_MAPPING[outer](text_config=text.to_dict(), tie_word_embeddings=text.tie_word_embeddings,
                                   **OUTER[outer])
    return AutoModelForImageTextToText.from_config(config)


class TextPart(nn.Module):
    """The text model of a larger model. Produces the larger model's results for text."""

    def __init__(self, whole):
        super().__init__()
        self.whole = whole
        self.config = whole.config.get_text_config()
        self.config._experts_implementation = "eager"

    @property
    def model(self):
        """The decoder, without the head."""
        decoder = self.whole.get_decoder()
        return getattr(decoder, "model", decoder)  # the decoder of llama4 includes its head

    def forward(self, *args, **options):
        return self.whole(*args, **options)

    def generate(self, *args, **options):
        return self.whole.generate(*args, **options)


def text_part(model):
    """The text model of a model; the model itself if it is not a larger one."""
    return TextPart(model) if model.config.model_type in OUTER else model
