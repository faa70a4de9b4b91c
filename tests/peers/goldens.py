"""Reads the goldens in tests/golden; tests/golden/README.md describes their content."""

import json
from pathlib import Path

import numpy as np

from safetensors_files import read_tensors

REPO = Path(__file__).resolve().parents[2]
CASES = sorted(path.parent.name for path in (REPO / "tests/golden").glob("*/golden.json"))
# Cases that generate text; the others label tokens.
WRITERS = [case for case in CASES if not case.startswith(("openai_privacy_filter", "tinytagger"))]
# Together, these cases have shared experts, leading dense layers, router groups, biases, sinks, a latent cache, fused
# tensors, and token histories.
IN_EVERY_FORM = ("tinymoe", "mixtral_b", "qwen2_moe_a", "glm4_moe_b", "deepseek_v3_a", "gpt_oss_a", "zaya_b")


def in_forms(forms):
    """Returns (case, form) pairs for a test of forms: the cases of IN_EVERY_FORM in every form, and each other case
    in the first form and in one other form in turn."""
    first, *others = forms
    pairs = []
    for index, case in enumerate(CASES):
        chosen = forms if case in IN_EVERY_FORM else (first, others[index % len(others)])
        pairs += [(case, form) for form in chosen]
    return pairs


class Golden:
    def __init__(self, case):
        self.folder = REPO / "tests/golden" / case
        self.info = json.loads((self.folder / "golden.json").read_text())
        self.tensors = read_tensors(self.folder / "golden.safetensors")
        self.checkpoint = (self.folder / self.info["checkpoint"]).resolve()
        greedy = self.info.get("greedy", {})
        self.prompt, self.greedy = greedy.get("prompt"), greedy.get("tokens")
        # (name, position of the first token, token ids)
        self.steps = [(name, position, self.tensors[name + ".tokens"].tolist())
                      for name, position in
                      ((step["name"], step["position"]) for step in self.info["steps"])]

    def rows(self, step, what, layer=None):
        """The rows [T, …] of a value for all tokens of a step."""
        return self.tensors[f"{step}.{what}" if layer is None else f"{step}.L{layer:02}.{what}"]

    def history(self, layer):
        """The rows that each position adds to a layer's history, [positions, channels]."""
        return self.tensors[f"L{layer:02}.history"]

    def cache(self, layer, kind, heads):
        """Keys ("k") or values ("v") of every position, [heads, positions, dims]. For latent attention, returns the
        latent if `heads` is 1, and otherwise the rows of each head."""
        cached = self.tensors[f"L{layer:02}.{kind}_cache"]
        return cached if len(cached) == heads else self.tensors[f"L{layer:02}.{kind}_heads"]

    def routing_weights(self, step, layer, experts):
        """Routing weights [T, experts], zero for experts that were not selected. The logits of null slots follow
        those of the experts."""
        chosen, weights = self.rows(step, "experts", layer), self.rows(step, "weights", layer)
        dense = np.zeros((len(chosen), self.rows(step, "router_logits", layer).shape[1]), np.float32)
        np.put_along_axis(dense, chosen, weights, axis=1)
        return dense[:, :experts]


# Other processors sum in a different order: tolerances relative to a value, and to its tensor's maximum.
ABSOLUTE, RELATIVE, OF_LARGEST = 1e-5, 1e-4, 1e-6


def compare_tensors(made, committed, file):
    """Fails if recomputed tensors differ: at all in a weight file or an integer tensor, otherwise by more than
    rounding."""
    assert made.keys() == committed.keys()
    for name, wanted in committed.items():
        exact = not file.startswith("golden") or wanted.dtype.kind == "i"
        largest = np.abs(wanted).max(initial=0)
        tolerance = (0, 0) if exact else (RELATIVE, max(ABSOLUTE, OF_LARGEST * largest))
        np.testing.assert_allclose(made[name], wanted, *tolerance, err_msg=f"{file}: {name}")
