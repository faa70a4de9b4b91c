"""Writes tinytagger's model card from the numbers in metrics.json."""

from training.run import provenance_lines
from training.tinytagger.spans import CLASSES, LABELS
from training.tinytagger.texts import KEPT, SEQ


def card(m):
    h, c = m["held_out"], m["config"]
    return "\n".join([
        "# tinytagger", "",
        "A tiny Privacy Filter (`openai_privacy_filter`) whose tokens are bytes, trained on made-up texts so that tests",
        "and demos have spans to find. Written by `scripts/train_tinytagger.py`; every number was measured by that",
        "script on the weights after rounding to bf16. It is a test fixture: do not trust it with private data.", "",
        f"- Parameters: {m['parameters']:,}; {c['num_hidden_layers']} layers, hidden {c['hidden_size']}, "
        f"{c['num_attention_heads']}/{c['num_key_value_heads']} heads of {c['head_dim']}, {c['num_local_experts']} experts "
        f"of width {c['intermediate_size']}, top-{c['num_experts_per_tok']}, a band of ±{c['sliding_window']} bytes, "
        f"{len(LABELS)} labels.",
        f"- Labels: O and B, I, E, S of {', '.join(CLASSES)}.",
        f"- Training: {m['steps']:,} steps of {m['batch']} texts of {SEQ} bytes, {m['train_minutes']} minutes of "
        f"one CPU core, AdamW, cosine learning rate from {m['lr']}.",
        *provenance_lines(m), "",
        "The held-out texts have templates and words that are not in the training texts: "
        f"{h['spans']} spans, {h['found']} found, {h['right']} right in label and both ends, F1 {h['f1']}.",
        f"In training texts that were not seen: F1 {m['seen_templates']['f1']} of {m['seen_templates']['spans']} spans.", "",
        f"`heldout.json` has the first {KEPT} of these texts with their true spans (`spans`) and those that PyTorch finds",
        f"(`found`), in bytes: {m['heldout_json']['spans']} spans, F1 {m['heldout_json']['f1']}.", ""])
