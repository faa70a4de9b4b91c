"""Checks that what a configuration switches on has an effect on the text that its case runs."""

import torch

from golden.reference import label_step


def check_decode(run):
    """Decode steps compute what one pass over everything computes."""
    assert not run.apart, f"decode and full pass differ by {run.worst}: {run.apart}"


def check_choice_biases(model):
    """No element of a correction bias is zero."""
    for layer, bias in model.moec_capture.choice_biases.items():
        assert bias.abs().min() > 0, f"the correction bias of layer {layer} has elements without effect"


def check_clip(config, run):
    """Values are clipped to clip_qkv."""
    limit = getattr(config, "clip_qkv", None)
    if limit:
        reach = max(rows.abs().max().item() for name, rows in run.caches.items() if name.endswith("v_cache"))
        assert reach == limit, "clip_qkv has no effect"


def check_null_slot(config, run):
    """zaya chooses its null slot, but in less than half of its choices."""
    if config.model_type == "zaya":
        chosen = torch.cat([t for step in run.steps for name, t in step.items() if name.endswith("experts")])
        assert 0 < (chosen == config.num_experts).sum() < chosen.numel() / 2, "null slot"


def check_band(model, step):
    """A token beyond the bands of all layers does not change a label; the last one within them does."""
    tokens = step["tokens"].tolist()
    reach = model.config.sliding_window * model.config.num_hidden_layers
    assert reach + 1 < len(tokens), "the text is within the band"
    within, less = (label_step(model, tokens[:count])["logits"][0] for count in (reach + 1, reach))
    assert torch.allclose(within, step["logits"][0], atol=1e-5), "the band is wider than it says"
    assert not torch.allclose(less, step["logits"][0], atol=1e-5), "the band is narrower than it says"
