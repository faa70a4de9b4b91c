"""The golden results under tests/golden (scripts/make_golden.py says what is in them)."""

import json
from pathlib import Path

import numpy as np

from safetensors_files import read_tensors

REPO = Path(__file__).resolve().parents[2]
CASES = sorted(path.parent.name for path in (REPO / "tests/golden").glob("*/golden.json"))
# Those that write text; the others label tokens.
WRITERS = [case for case in CASES if not case.startswith(("openai_privacy_filter", "tinytagger"))]
# Between them: shared experts, leading dense layers, groups, biases, sinks, a latent cache, fused tensors,
# histories of tokens.
IN_EVERY_FORM = ("tinymoe", "mixtral_b", "qwen2_moe_a", "glm4_moe_b", "deepseek_v3_a", "gpt_oss_a", "zaya_b")


def in_forms(forms):
    """(case, form) pairs for a test of forms: some cases in every form, each other case in the first form
    and in one more, which goes round."""
    first, *others = forms
    pairs = []
    for index, case in enumerate(CASES):
        chosen = forms if case in IN_EVERY_FORM else (first, others[index % len(others)])
        pairs += [(case, form) for form in chosen]
    return pairs


class Golden:
    def __init__(self, case):
        folder = REPO / "tests/golden" / case
        self.info = json.loads((folder / "golden.json").read_text())
        self.tensors = read_tensors(folder / "golden.safetensors")
        self.checkpoint = (folder / self.info["checkpoint"]).resolve()
        greedy = self.info.get("greedy", {})
        self.prompt, self.greedy = greedy.get("prompt"), greedy.get("tokens")
        # (name, position of the first token, token ids)
        self.steps = [(name, position, self.tensors[name + ".tokens"].tolist())
                      for name, position in
                      ((step["name"], step["position"]) for step in self.info["steps"])]

    def rows(self, step, what, layer=None):
        """The rows [T, …] of a value at all tokens of a step."""
        return self.tensors[f"{step}.{what}" if layer is None else f"{step}.L{layer:02}.{what}"]

    def history(self, layer):
        """What each position adds to the history of a layer, [positions, channels]."""
        return self.tensors[f"L{layer:02}.history"]

    def cache(self, layer, kind, heads):
        """Keys ("k") or values ("v") of every position, [heads, positions, dims]: with latent attention
        the latent, one for all heads, or those of each head."""
        cached = self.tensors[f"L{layer:02}.{kind}_cache"]
        return cached if len(cached) == heads else self.tensors[f"L{layer:02}.{kind}_heads"]

    def routing_weights(self, step, layer, experts):
        """[T, experts], zero for the experts that were not chosen. Null slots come behind the experts."""
        chosen, weights = self.rows(step, "experts", layer), self.rows(step, "weights", layer)
        dense = np.zeros((len(chosen), self.rows(step, "router_logits", layer).shape[1]), np.float32)
        np.put_along_axis(dense, chosen, weights, axis=1)
        return dense[:, :experts]
