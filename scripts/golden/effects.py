"""Checks that the options of a configuration affect the results on the case's text."""

import torch

from golden.reference import label_step


def check_decode(run):
    """Checks that decode steps and one pass over all tokens produce the same results."""
    assert not run.apart, f"decode and full pass differ by {run.worst}: {run.apart}"


def check_choice_biases(model):
    """Checks that no element of a correction bias is zero."""
    for layer, bias in model.moec_capture.choice_biases.items():
        assert bias.abs().min() > 0, f"the correction bias of layer {layer} has elements without effect"


def check_clip(config, run):
    """Checks that clip_qkv clips values."""
    limit = getattr(config, "clip_qkv", None)
    if limit:
        reach = max(rows.abs().max().item() for name, rows in run.caches.items() if name.endswith("v_cache"))
        assert reach == limit, "clip_qkv has no effect"


def check_null_slot(config, run):
    """Checks that zaya picks its null slot, but in less than half of its picks."""
    if config.model_type == "zaya":
        chosen = torch.cat([t for step in run.steps for name, t in step.items() if name.endswith("experts")])
        assert 0 < (chosen == config.num_experts).sum() < chosen.numel() / 2, "null slot"


def check_band(model, step):
    """Checks that the last token within the bands of all layers affects a label, and that the next token does not."""
    tokens = step["tokens"].tolist()
    reach = model.config.sliding_window * model.config.num_hidden_layers
    assert reach + 1 < len(tokens), "the text is within the band"
    within, less = (label_step(model, tokens[:count])["logits"][0] for count in (reach + 1, reach))
    assert torch.allclose(within, step["logits"][0], atol=1e-5), "the band is wider than configured"
    assert not torch.allclose(less, step["logits"][0], atol=1e-5), "the band is narrower than configured"
