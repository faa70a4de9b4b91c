"""Makes the golden of a user's checkpoint, with all weights or the weights of one part at a time in memory."""

import sys

from golden.labels import TAGGERS
from golden.progress import Progress
from golden.publish import staged
from golden.reference import TOLERANCE, Run, greedy_of, label_step, load, run_steps
from golden.request import Refused, gguf_file
from golden.streamed import open_streamed
from golden.top_k import take_experts
from golden.write import write_golden

NEAR_TIE = 1e-3  # the order of logits closer than this may depend on the order of summation


class Reporter:
    """Shows the progress of a run's passes. Each pass runs all parts of the model."""

    def __init__(self, request):
        self.passes = 1 if request.family in TAGGERS else 2 + len(request.decode)
        self.begun, self.bar = 0, None

    def bar_of(self, parts):
        self.bar = Progress(parts)
        return self.bar

    def begin(self, label):
        self.finish()
        self.begun += 1
        if self.bar:
            self.bar.begin(f"pass {self.begun} of {self.passes}, {label}")

    def finish(self):
        if self.bar and self.begun:
            self.bar.end()


def run_request(request, model, reporter):
    if request.family in TAGGERS:
        reporter.begin("labels")
        run = Run([label_step(model, request.prompt)])
    else:
        run = run_steps(model, request.prompt, request.decode, reporter.begin)
        if all(token is None for token in request.decode):
            run.greedy = greedy_of(request.prompt, run.steps)
    reporter.finish()
    return run


def warn(run):
    """Prints warnings on near ties."""
    if run.apart:
        print(f"warning: decode steps and one pass over all tokens differ by more than {TOLERANCE} of the largest value, first "
              f"in {run.apart[0]}: scores nearly tie there, so a comparison may pick other experts; try another prompt",
              file=sys.stderr)
    if run.greedy and run.greedy.gap < NEAR_TIE:
        print(f"warning: two logits of the greedy text are only {run.greedy.gap:.1e} apart, so a comparison may choose "
              "another token; try another prompt", file=sys.stderr)


def make_own(request, whole=False):
    """Writes only golden.json and golden.safetensors into request.out. Raises Refused."""
    reporter = Reporter(request)
    if whole or gguf_file(request.checkpoint):
        model = load(request.checkpoint, request.family)
    else:
        model = open_streamed(request.checkpoint, request.family, reporter.bar_of)
    if request.top_k:
        take_experts(model, request.top_k)
    try:
        run = run_request(request, model, reporter)
        with staged(request.out) as folder:
            write_golden(request.out, folder, request.checkpoint, model, run, request.top_k)
    except AssertionError as error:
        raise Refused(f"the reference differs from moec's description of {request.family}: {error}") from error
    warn(run)
