"""Runs assets in Apple's runtime of the package coreai-core, which is a CPU interpreter on Linux."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
from coreai.authoring import AIModelAsset
from coreai.runtime import NDArray

from running.steps import ShardRunner


class Function:
    """A function of an asset, with the interface of an onnxruntime session."""

    def __init__(self, runtime, model, name):
        self.runtime, self.function = runtime, model.load_function(name)

    def run(self, names, feeds):
        """Returns the outputs `names`. The library requires contiguous arrays, and checks their shapes."""
        arrays = {name: NDArray(np.ascontiguousarray(array)) for name, array in feeds.items()}
        results = self.runtime.wait(self.function(arrays))
        return [np.array(results[name].numpy()) for name in names]


class Runtime:
    """Holds lowered assets. Close it, or use `with`, to remove the files of the lowered programs."""

    def __init__(self):
        self.loop, self.stack, self.models = asyncio.new_event_loop(), AsyncExitStack(), {}

    def wait(self, work):
        return self.loop.run_until_complete(work)

    def function(self, asset, name):
        asset = Path(asset)
        if asset not in self.models:
            lowered = AIModelAsset.load(asset).executable()
            self.models[asset] = self.wait(self.stack.enter_async_context(lowered))
        return Function(self, self.models[asset], name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.models.clear()
        self.wait(self.stack.aclose())
        self.loop.close()


class AssetRunner(ShardRunner):
    """A ShardRunner whose shards run in Apple's runtime. `assets` is the output of export_coreai.py for the export `folder`."""

    def __init__(self, folder, assets, runtime):
        super().__init__(folder, skip_idle_groups=False)
        self.assets, self.runtime = Path(assets), runtime
        self.names = {width["file"]["path"]: (shard["name"], f"t{width['tokens']}")
                      for shard in self.manifest["shards"] for width in shard["widths"]}

    def session(self, width):
        path = width["file"]["path"]
        if path not in self.sessions:
            shard, function = self.names[path]
            self.sessions[path] = self.runtime.function(self.assets / f"{shard}.aimodel", function)
        return self.sessions[path]
