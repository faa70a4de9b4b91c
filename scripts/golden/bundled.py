"""Makes the goldens of the tests, for random checkpoints and for trained models."""

import json

from golden.cases import CASES
from golden.checkpoint import write_checkpoint
from golden.labels import TAGGERS
from golden.publish import REPO, staged
from golden.reference import load
from golden.request import Refused
from golden.texts import run_random, run_random_labels, run_tinymoe, run_tinytagger
from golden.top_k import take_experts
from golden.write import write_golden

MODELS = REPO / "models"
CLEARED = (".safetensors", ".json")  # suffixes of files of earlier runs to remove from a case's folder


def make_random(case, home):
    with staged(home, CLEARED) as folder:
        write_checkpoint(case, CASES[case], folder)
        model = load(folder)
        run = (run_random_labels if CASES[case]["family"] in TAGGERS else run_random)(case, model)
        write_golden(home, folder, folder, model, run)


def make_tinymoe(home):
    checkpoint = MODELS / "tinymoe"
    model = load(checkpoint)
    run = run_tinymoe(model)
    with staged(home, CLEARED) as folder:
        write_golden(home, folder, checkpoint, model, run)
    print("  prompt", repr(bytes(run.greedy.prompt)), "continues", repr(bytes(run.greedy.tokens)))


def make_tinytagger(home):
    checkpoint = MODELS / "tinytagger"
    model = load(checkpoint)
    texts = json.loads((checkpoint / "heldout.json").read_text())["texts"]
    run = run_tinytagger(model, [each["text"].encode() for each in texts])
    with staged(home, CLEARED) as folder:
        write_golden(home, folder, checkpoint, model, run)
    print("  text", repr(bytes(run.steps[0]["tokens"].tolist())))


# Further goldens of the checkpoints above, with other numbers of experts per token: name → (checkpoint, numbers).
TOP_K_CASES = {
    "mixtral_a_k1": ("mixtral_a", "1"),  # softmax, renormalised; the checkpoint has 2
    "mixtral_a_k3": ("mixtral_a", "3"),
    "mixtral_a_by_layer": ("mixtral_a", "L0:1;L1-:3"),
    "qwen2_moe_a_k1": ("qwen2_moe_a", "1"),  # softmax, not renormalised; the checkpoint has 3
    "qwen2_moe_a_k4": ("qwen2_moe_a", "4"),
    "deepseek_v3_a_k1": ("deepseek_v3_a", "1"),  # sigmoid, correction bias, 2 of 3 groups, scaled; the checkpoint has 3
    "deepseek_v3_a_k5": ("deepseek_v3_a", "5"),
    "deepseek_v3_a_by_layer": ("deepseek_v3_a", "L1:1;*:4"),  # layer 0 is dense
    "gpt_oss_a_k1": ("gpt_oss_a", "1"),  # softmax of the picked logits; the checkpoint has 2
    "llama4_text_a_k2": ("llama4_text_a", "2"),  # sigmoid weights on the experts' input; the checkpoint has 1
    "zaya_a_k2": ("zaya_a", "2"),  # null slot; the checkpoint has 1
}


def make_top_k(name, out):
    """Makes a golden of TOP_K_CASES in the folder top_k, next to its checkpoint."""
    case, text = TOP_K_CASES[name]
    model = load(out / case)
    take_experts(model, text)
    run = run_random(name, model)
    home = out / "top_k" / name
    home.parent.mkdir(parents=True, exist_ok=True)
    with staged(home, CLEARED) as folder:
        write_golden(home, folder, out / case, model, run, text)


TRAINED = {"tinymoe": make_tinymoe, "tinytagger": make_tinytagger}


def check_choice(family, case):
    families = {spec["family"] for spec in CASES.values()}
    if family is not None and family not in families:
        raise Refused(f"there are no cases of family {family!r}: choose one of {', '.join(sorted(families))}")
    if case is not None and case not in {*CASES, *TRAINED, *TOP_K_CASES}:
        raise Refused(f"there is no case {case!r}: choose one of {', '.join([*TRAINED, *CASES])}")


def make_cases(out, family=None, case=None):
    """Makes the goldens of all cases, of one family's random checkpoints, or of one case. Raises Refused."""
    check_choice(family, case)
    for name, spec in CASES.items():
        if case in (None, name) and family in (None, spec["family"]):
            make_random(name, out / name)
    for name, (checkpoint, _) in TOP_K_CASES.items():
        if case in (None, name) and family in (None, CASES[checkpoint]["family"]):
            make_top_k(name, out)
    for name, make in TRAINED.items():
        if case == name or (case is None and family is None):
            make(out / name)
