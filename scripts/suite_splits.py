"""Splits of the bundled prompt suite, and commands of moec on tinymoe, for scripts that measure on held-out prompts."""

import json
import random
import shutil
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
TINYMOE = REPO / "models/tinymoe"
SUITE = REPO / "frontends/measure/prompts.jsonl"
WINDOW = 256  # tokens; no prompt is longer


def read_suite():
    return [json.loads(line) for line in SUITE.read_text().splitlines()]


def random_half(prompts, seed):
    """Indices of a random half of the prompts, with equal numbers per category."""
    chosen, generator = set(), random.Random(seed)
    for category in sorted({prompt["category"] for prompt in prompts}):
        members = [i for i, prompt in enumerate(prompts) if prompt["category"] == category]
        chosen.update(generator.sample(members, len(members) // 2))
    return chosen


def write_half(prompts, half, path):
    """Writes the prompts with these indices; returns the indices in file order."""
    order = sorted(half)
    path.write_text("".join(json.dumps(prompts[i]) + "\n" for i in order))
    return order


class Moec:
    """The moec program with an export of tinymoe, and a scratch folder for its output."""

    def __init__(self, binary, scratch):
        self.binary, self.scratch, self.out = binary, Path(scratch), Path(scratch) / "out"
        self.run("export", TINYMOE, "--out", self.out, "--tokens", WINDOW, "--context", WINDOW, "-q")

    def run(self, *words):
        done = subprocess.run([str(word) for word in (self.binary, *words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def analyze(self, suite):
        """Profiles these prompts; returns the output folder."""
        folder = self.scratch / "profile"
        shutil.rmtree(folder, ignore_errors=True)
        self.run("analyze", TINYMOE, "--prompts", suite, "--out", folder, "-q")
        return folder

    def place(self, profile, policy, nodes, replicas, covered=False):
        """Places experts; returns the file of groups, one per node. With the policy "categories", experts that no category
        selects enough are on no node, unless `covered`."""
        path = self.scratch / f"{policy}.json"
        given = () if policy == "contiguous" else ("--profile", profile)
        uncovered = ("--allow-uncovered",) if policy == "categories" and not covered else ()
        self.run("place", TINYMOE, "--policy", policy, *given, *uncovered, "--nodes", nodes, "--replicas", replicas, "--out",
                 path, "--force")
        return path
