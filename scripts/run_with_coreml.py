#!/usr/bin/env python3
"""Runs a folder of Core ML packages on a Mac with coremltools, as an example for writing a runtime.

It reads only manifest.json and has no model-specific code. The parts without an engine are in running/. It requires
macOS 15, and coremltools 9 for the states of a package.

    pip install coremltools numpy tokenizers
    moec export models/tinymoe --out out/tinymoe-ane --target ane --tokens 1,16 --widths functions
    scripts/run_with_coreml.py out/tinymoe-ane --prompt "def " --max-tokens 60
    scripts/run_with_coreml.py out/tinymoe-ane --prompt "def " --units CPU_ONLY

Core ML compiles each package when the script first needs it. The script has NOT been run on a Mac: its tests replace
MLModel by an interpreter of the packages (tests/peers/mil_model.py).
"""

import sys

import numpy as np

from confirm_on_mac import package_of
from running.command import run_command
from running.steps import ShardRunner

UNITS = ("ALL", "CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE")  # of coremltools.ComputeUnit


def load_model(package, units, function):
    """Compiles and loads a function of a package; an empty name is the only function. Only this requires coremltools."""
    import coremltools

    return coremltools.models.MLModel(str(package), compute_units=coremltools.ComputeUnit[units],
                                      function_name=function or None)


class CoremlRunner(ShardRunner):
    """A ShardRunner whose shards run in Core ML, with their states on the device. `load` is load_model() or a
    replacement."""

    format, target = "coreml", "ane"

    def __init__(self, folder, units="CPU_AND_NE", skip_idle_groups=True, top_k="", load=load_model):
        super().__init__(folder, skip_idle_groups, top_k)
        self.units, self.load = units, load

    def reset(self):
        super().reset()
        self.device_states = {}  # shard → (place of its last graph, that graph's state)

    def place_of(self, width):
        """Identifies a graph. The widths of a package with a range of widths share a graph."""
        return package_of(width["file"]["path"]), width["function"]

    def session(self, width):
        """The model of a graph, loaded on first use."""
        place = self.place_of(width)
        if place not in self.sessions:
            self.sessions[place] = self.load(self.folder / place[0], self.units, place[1])
        return self.sessions[place]

    def state_of(self, shard, width):
        """The state for a graph; None for a shard without states. A state belongs to the model that made it. If the last
        step ran another graph, for another width or top-k variant, its values are copied."""
        if not shard["states"]:
            return None
        place = self.place_of(width)
        last, old = self.device_states.get(shard["name"], (None, None))
        if last == place:
            return old
        state = self.session(width).make_state()  # zeros
        for port in shard["states"] if old else ():
            values = np.asarray(old.read_state(port["name"]), np.float32)  # coremltools does not accept f16 here
            state.write_state(port["name"], values)
        self.device_states[shard["name"]] = place, state
        return state

    def run_graph(self, shard, width, names, feeds):
        """coremltools returns f16 outputs as f32, without a change of the values."""
        results = self.session(width).predict(feeds, self.state_of(shard, width))
        return [np.asarray(results[name]) for name in names]


def add_options(parser):
    parser.add_argument("--units", choices=UNITS, default="CPU_AND_NE",
                        help="compute units that Core ML may use (default: %(default)s)")


def open_runner(args):
    if sys.platform != "darwin":
        raise ValueError("Core ML exists only on Apple's systems: run this script on a Mac, or use moec run here")
    return CoremlRunner(args.folder, args.units, top_k=args.top_k)


def main():
    run_command(__doc__, add_options, open_runner)


if __name__ == "__main__":
    main()
