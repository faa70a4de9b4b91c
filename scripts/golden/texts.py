"""Chooses the text of a case: one without near ties of experts or tokens."""

import numpy as np

from golden.effects import check_band, check_choice_biases, check_clip, check_decode, check_null_slot
from golden.gaps import label_gap, order_gap, router_gap, steps_gap
from golden.reference import Run, label_step, run_greedy, run_steps

PREFILL, DECODE = 24, 4
LABELLED = 15       # tokens of a text for models that label tokens
ATTEMPTS = 400      # maximum number of random texts
ROUTER_GAP = 0.02   # gap that is sufficient for a random text

TINYMOE_PROMPTS = [  # 32 bytes each
    'def read(self, size=-1):\n    """',
    "for name in sorted(self.names):\n",
    "if not isinstance(value, str):\n ",
    "Return the number of bytes that ",
    "The default value of the option ",
    "This function is used to set the",
    "class Handler(object):\n    def _",
    "try:\n    import os\nexcept Import",
    "See the documentation of the mod",
    '{"id": 4711, "name": "ada", "ema',
    "    raise ValueError('invalid ar",
    "    return self._get(name, None)",
    '[1, 2], "ok": true}\n{"order": 52',
    "12 + 7 = 19\n30 - 4 = 26\n5 * 11 =",
    "def main():\n    parser = argpars",
    '        if self._closed:\n       ',
    "import sys\nimport os\n\n__all__ = ",
    '    """Return a new dictionary w',
    '{"point": {"x": 12, "y": -7}, "t',
    '{"id": 20613, "name": "grace", "',
    '{"order": 871, "items": [{"sku":',
    "8 * 7 = 56\n100 - 58 = 42\n9 / 2 =",
    "35 < 81\n(20 + 22) + 5 = 42 + 5 =",
    "The second argument is the name ",
    "    for key, value in self.items",
    "        return isinstance(other,",
    "If the argument is not given, th",
    "from collections import namedtup",
    '"ok": true}\n{"event": "stop", "t',
    'class Error(Exception):\n    """B',
    "self.assertEqual(a, b)\n\n    def ",
    'with open(path, "rb") as stream:',
]


def random_texts(case, vocab, count):
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([attempt, *case.encode()])
        yield rng.integers(0, vocab, count).tolist()


def run_random(case, model):
    """Runs random texts until the gaps of one reach ROUTER_GAP; if none does, uses the text with the largest gaps."""
    best = None
    for ids in random_texts(case, model.config.vocab_size, PREFILL + DECODE):
        prompt, decode = ids[:PREFILL], ids[PREFILL:]
        run = run_steps(model, prompt, decode)
        gap = steps_gap(run.steps, model.config)
        if best is not None and gap <= best[0]:
            continue
        run.greedy = run_greedy(model, prompt, 8)
        gap = min(gap, run.greedy.gap * 2)
        if best is None or gap > best[0]:
            best = (gap, run)
        if gap >= ROUTER_GAP:
            break
    check_decode(best[1])
    check_choice_biases(model)
    check_clip(model.config, best[1])
    check_null_slot(model.config, best[1])
    return best[1]


def run_random_labels(case, model):
    """As run_random, for a model that labels tokens."""
    best = None
    for tokens in random_texts(case, model.config.vocab_size, LABELLED):
        step = label_step(model, tokens)
        gap = label_gap(step, model.config)
        if best is None or gap > best[0]:
            best = (gap, step)
        if gap >= ROUTER_GAP:
            break
    check_band(model, best[1])
    return Run([best[1]])


def run_tinymoe(model):
    """Chooses the prompt with the most varied continuation, among prompts without near ties in the greedy text and the
    routers."""
    best = None
    for text in TINYMOE_PROMPTS:
        prompt = list(text.encode())
        assert len(prompt) == 32, (text, len(prompt))
        greedy = run_greedy(model, prompt, 64)
        run = run_steps(model, prompt, greedy.tokens[:DECODE])
        run.greedy = greedy
        clear = min(1.0, greedy.gap / 0.03, router_gap(run.steps) / 0.002, order_gap(run.steps) / 0.002)
        merit = (clear, len(set(greedy.tokens)), greedy.gap)
        if best is None or merit > best[0]:
            best = (merit, run)
    check_decode(best[1])
    greedy = best[1].greedy
    assert greedy.gap > 1e-2, f"every prompt's greedy path nearly ties: {greedy.gap}"
    return best[1]


def run_tinytagger(model, texts):
    """Chooses the part of the texts with the largest gaps of routers and labels."""
    parts = [list(text[at:at + LABELLED]) for text in texts for at in range(0, len(text) - LABELLED, LABELLED)]
    return Run([max((label_step(model, part) for part in parts), key=lambda step: label_gap(step, model.config))])
