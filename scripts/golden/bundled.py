"""Makes the goldens that the tests compare with: those of random checkpoints, and of the models that were trained."""

import json

from golden.cases import CASES
from golden.checkpoint import write_checkpoint
from golden.labels import TAGGERS
from golden.publish import REPO, staged
from golden.reference import load
from golden.request import Refused
from golden.texts import run_random, run_random_labels, run_tinymoe, run_tinytagger
from golden.write import write_golden

MODELS = REPO / "models"
CLEARED = (".safetensors", ".json")  # files of an earlier run that are removed from a case's folder


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


TRAINED = {"tinymoe": make_tinymoe, "tinytagger": make_tinytagger}


def check_choice(family, case):
    families = {spec["family"] for spec in CASES.values()}
    if family is not None and family not in families:
        raise Refused(f"there are no cases of family {family!r}; one of {', '.join(sorted(families))}")
    if case is not None and case not in {*CASES, *TRAINED}:
        raise Refused(f"there is no case {case!r}; one of {', '.join([*TRAINED, *CASES])}")


def make_cases(out, family=None, case=None):
    """Makes the goldens of all cases, or of one family's random checkpoints, or of one case. Raises Refused."""
    check_choice(family, case)
    for name, spec in CASES.items():
        if case in (None, name) and family in (None, spec["family"]):
            make_random(name, out / name)
    for name, make in TRAINED.items():
        if case == name or (case is None and family is None):
            make(out / name)
