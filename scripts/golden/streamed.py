"""A reference model that holds the weights of one part at a time: a decoder layer, the embedding, or the head.

transformers builds the model on the meta device and describes how it would load the checkpoint: which stored tensors
make which weight, merged, transposed or decoded. That description is kept, and applied to the tensors of one part just
before the part runs; its weights are dropped right after. So the values are those that transformers loads, and they
are computed by its own modules, while memory holds one part in float32, what its conversion needs (up to as much
again), and the activations. Every pass reads all weight files once.

This relies on `convert_and_load_state_dict_in_model`, which is no public interface of transformers: TESTED names the
versions that tests/peers/test_own_goldens.py has passed with.
"""

import collections
import contextlib
import ctypes
import os
import re

import torch
import transformers
from safetensors import safe_open
from transformers import modeling_utils

from golden.reference import adapt, config_of, from_checkpoint
from golden.request import Refused, weight_files

TESTED = ("5.23.0",)
LOADER = "convert_and_load_state_dict_in_model"
EMBEDDING, HEAD = "embed_tokens", "lm_head"
EMBEDDINGS = (EMBEDDING, "embeddings")  # the module's names in the families
OF_TOWERS = re.compile(r"vision(?!_moe)|visual|audio|tower|projector|resampler")

LARGE_BLOCK = 1 << 20  # bytes

# One stored tensor after the other: with transformers' threads a whole layer would lie in memory twice.
os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")


def return_freed_memory():
    """Makes glibc give large blocks back as soon as they are freed. By itself it raises the size from which it does so
    with each such block, and would keep most of the tensors of a dropped layer."""
    m_mmap_threshold = -3
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(m_mmap_threshold, LARGE_BLOCK)


def part_of(name):
    """The part that a tensor of the checkpoint or of the model belongs to: the number of a layer, EMBEDDING, HEAD, or
    None for what stays in memory, such as the last norm and the towers of a larger model."""
    if OF_TOWERS.search(name):
        return None
    layer = re.search(r"\blayers\.(\d+)\.", name)
    if layer:
        return int(layer.group(1))
    names = dict.fromkeys(EMBEDDINGS, EMBEDDING) | {HEAD: HEAD}
    return next((part for own, part in names.items() if f".{own}." in f".{name}"), None)


# --------------------------------------------------------------- loading ----

class StoredTensors:
    """The tensors of a checkpoint by part; nothing is read before `opened` maps the files."""

    def __init__(self, checkpoint):
        self.files = {}  # name of the tensor → path of its file
        self.parts = collections.defaultdict(list)
        for path in weight_files(checkpoint):
            with safe_open(path, "pt") as file:
                for name in file.keys():
                    self.files[name] = path
                    self.parts[part_of(name)].append(name)

    @contextlib.contextmanager
    def opened(self, names):
        """Name → slice of a mapped file. The mapping ends with the block, so that its pages do not add up."""
        with contextlib.ExitStack() as stack:
            paths = {self.files[name] for name in names}
            mapped = {path: stack.enter_context(safe_open(path, "pt")) for path in paths}
            yield {name: mapped[self.files[name]].get_slice(name) for name in names}


def check_loaded(info, checkpoint):
    """Raises Refused where transformers could not make a weight of the stored tensors."""
    for name, error in info.conversion_errors.items():
        raise Refused(f"{checkpoint}: transformers cannot convert {name}: {error}")
    for name, stored, wanted in info.mismatched_keys:
        raise Refused(f"{checkpoint}: {name} has shape {list(stored)}, the config asks for {list(wanted)}")


def named_tensors(module):
    """name → (owner, dictionary of the owner, key) of each parameter and each buffer of a state dict."""
    found = {}
    for prefix, owner in module.named_modules():
        for table in (owner._parameters, owner._buffers):
            for key, tensor in table.items():
                if tensor is not None and key not in owner._non_persistent_buffers_set:
                    found[f"{prefix}.{key}".lstrip(".")] = (owner, table, key)
    return found


@contextlib.contextmanager
def deferred_parts(checkpoint):
    """Inside, from_pretrained loads only what belongs to no part; the rest stays on the meta device. Gives a dictionary
    that then has the loader and transformers' description of the loading."""
    if not hasattr(modeling_utils, LOADER):
        raise Refused(f"transformers {transformers.__version__} has another loader; install {' or '.join(TESTED)}")
    loader, kept = getattr(modeling_utils, LOADER), {}

    def load_rest(model, state_dict, load_config, disk_offload_index=None):
        rest = {name: tensor for name, tensor in state_dict.items() if part_of(name) is None}
        info, index = loader(model, rest, load_config, disk_offload_index)
        check_loaded(info, checkpoint)
        tied = getattr(model, "all_tied_weights_keys", {})
        lacking = [name for name in info.missing_keys if part_of(name) is None and name not in tied]
        if lacking:
            raise Refused(f"{checkpoint} has no tensor for {', '.join(sorted(lacking))}")
        for owner, table, key in named_tensors(model).values():
            table[key]._is_hf_initialized = True  # transformers fills no weight that it believes to be missing
        info.missing_keys.clear()
        kept.update(load=loader, config=load_config)
        return info, index

    setattr(modeling_utils, LOADER, load_rest)
    try:
        yield kept
    finally:
        setattr(modeling_utils, LOADER, loader)


# ----------------------------------------------------------------- parts ----

def placeholder(tensor):
    """Takes the place of a tensor that is not loaded: NaN in its shape, in the memory of one element. Not a meta
    tensor: some models move their input to the device of a weight before it is loaded, and would compute garbage."""
    value = torch.nan if tensor.is_floating_point() else 0
    empty = torch.full((), value, dtype=tensor.dtype).expand(tensor.shape)
    return torch.nn.Parameter(empty, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else empty


def whole_of(model):
    """The model of transformers: the larger one around a text part."""
    return getattr(model, "whole", model)


class Parts:
    """Loads and drops the weights of a model's parts."""

    def __init__(self, model, checkpoint, kept, progress):
        self.model, self.checkpoint, self.progress = model, checkpoint, progress
        self.kept, self.stored = kept, StoredTensors(checkpoint)
        self.tensors = collections.defaultdict(dict)  # part → name → (owner, table, key)
        for name, place in named_tensors(whole_of(model)).items():
            self.tensors[part_of(name)][name] = place
        self.empty = {name: placeholder(table[key]) for part in self.tensors if part is not None
                      for name, (_, table, key) in self.tensors[part].items()}

    def modules(self):
        """part → the module whose pass needs it."""
        base, head = self.model.model, self.head()
        return {EMBEDDING: base.get_input_embeddings(), **dict(enumerate(base.layers)),
                **({HEAD: head} if head else {})}

    def head(self):
        return next((module for name, module in self.model.named_modules() if name.split(".")[-1] == HEAD), None)

    def tied_head(self):
        """Whether the head is the embedding. A stored head of its own is used, whatever the config says."""
        ties = whole_of(self.model).config.tie_word_embeddings
        return ties and self.head() is not None and not self.stored.parts[HEAD]

    def load(self, part, only=""):
        """Materialises a part, or those of its stored tensors whose name contains `only`."""
        names = [name for name in self.stored.parts[part] if only in name]
        self.load_named(names)
        if part == HEAD and self.tied_head():
            self.load_named(self.stored.parts[EMBEDDING])
            self.head().weight = self.model.model.get_input_embeddings().weight
        if not only:
            self.check_complete(part)

    def load_named(self, names):
        with self.stored.opened(names) as slices:
            info, _ = self.kept["load"](whole_of(self.model), slices, self.kept["config"])
        check_loaded(info, self.checkpoint)
        for part in {part_of(name) for name in names}:
            for name, (_, table, key) in self.tensors[part].items():
                if table[key] is not self.empty[name]:
                    table[key].data = table[key].data.float()

    def check_complete(self, part):
        lacking = [name for name, (_, table, key) in self.tensors[part].items() if table[key] is self.empty[name]]
        if lacking:
            raise Refused(f"{self.checkpoint} has no tensor for {', '.join(sorted(lacking)[:4])}")

    def drop(self, part):
        """Puts placeholders in the places of a part's weights."""
        for each in (part, EMBEDDING) if part == HEAD and self.tied_head() else (part,):
            for name, (_, table, key) in self.tensors[each].items():
                table[key] = self.empty[name]

    @contextlib.contextmanager
    def loaded(self, part, only=""):
        self.load(part, only)
        try:
            yield
        finally:
            self.drop(part)

    def attach(self):
        """From now on each part is loaded before its module runs and dropped afterwards. Call it after all other hooks
        are registered, so that these still find the weights."""
        for part, module in self.modules().items():
            self.drop(part)
            module.register_forward_pre_hook(lambda _module, _args, part=part: self.load(part), prepend=True)
            module.register_forward_hook(lambda _module, _args, _out, part=part: self.finish(part))

    def finish(self, part):
        self.drop(part)
        self.progress.step()


def open_streamed(checkpoint, family, progress_of):
    """The model of a folder with its weights in files, and its hooks as `moec_capture`. `progress_of` makes a Progress
    of the number of parts that a pass runs."""
    return_freed_memory()
    config = config_of(checkpoint, family)
    with deferred_parts(checkpoint) as kept:
        model = from_checkpoint(checkpoint, config)
    adapt(model)
    parts = Parts(model, checkpoint, kept, None)
    parts.progress = progress_of(len(parts.modules()))
    parts.attach()
    model.moec_parts = parts
    return model
