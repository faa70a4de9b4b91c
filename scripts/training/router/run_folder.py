"""The folder of a training: its request, finished parts, and saved states."""

import json
import os
import shutil
from pathlib import Path

from golden.publish import write_json
from golden.request import Refused, read_json

RUN, STATE, DONE = "run.json", "state.pt", "metrics.json"


def write_json_whole(path, content):
    """Replaces a JSON file atomically: even after a crash, readers find the old or the new file."""
    write_whole(path, lambda partial: write_json(partial, content))


def write_whole(path, write):
    """Calls write(path of a new file), and moves that file to `path` after flushing it to disk."""
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with open(partial, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


class RunFolder:
    """OUT of a training. `request` has all settings that affect the results, as JSON values; a resumed run must have the
    same request."""

    def __init__(self, path, request, resume=False, force=False):
        self.path, self.request = Path(path), json.loads(json.dumps(request))
        if resume and force:
            raise Refused("--resume continues what --force removes: pass only one of the two")
        if self.path.exists() and not self.path.is_dir():
            raise Refused(f"{self.path} is a file: pass a folder with --out")
        if resume:
            self.check_same()
        else:
            self.clear(force)
        self.path.mkdir(parents=True, exist_ok=True)
        write_json_whole(self.path / RUN, self.request)

    def check_same(self):
        if not (self.path / RUN).is_file():
            raise Refused(f"{self.path} has no {RUN}, so there is no training to resume: omit --resume")
        before = read_json(self.path / RUN)
        names = sorted(name for name in {*before, *self.request} if before.get(name) != self.request.get(name))
        if names:
            told = "; ".join(f"{name} was {json.dumps(before.get(name))} and is {json.dumps(self.request.get(name))}"
                             for name in names)
            raise Refused(f"{self.path} contains another training ({told}): resume it with the same flags, or use --force")

    def clear(self, force):
        """Removes an earlier training; a folder without one stays unchanged."""
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not force:
            raise Refused(f"{self.path} is not empty: continue its training with --resume, or replace it with --force")
        if not (self.path / RUN).is_file():
            raise Refused(f"{self.path} contains files but no {RUN}, and --force replaces only earlier trainings: "
                          "pass another folder")
        before = read_json(self.path / RUN).get("parts", [])
        for name in {name for name in [*self.request["parts"], *before] if name == Path(name).name}:
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / RUN).unlink()

    def part(self, name):
        """The folder of one training of this run, such as `seed0`."""
        assert name in self.request["parts"], name
        return Part(self.path / name)


class Part:
    """The folder of one training of a run: the training's state while it runs, its metrics when it is finished."""

    def __init__(self, path):
        self.path = path
        self.path.mkdir(exist_ok=True)
        for partial in self.path.glob("*.partial"):
            partial.unlink()

    @property
    def state(self):
        return self.path / STATE

    def metrics(self):
        """Metrics of a finished training; None if it is not finished."""
        return read_json(self.path / DONE) if (self.path / DONE).is_file() else None

    def finish(self, metrics):
        write_json_whole(self.path / DONE, metrics)
        self.state.unlink(missing_ok=True)
