"""A reference model with the weights of only one part in memory: a decoder layer, the embedding, or the head.

transformers builds the model on the meta device, and describes how stored tensors become weights by merging,
transposing and decoding. This module keeps that description, and applies it to the tensors of one part just before the
part runs. It drops the weights immediately afterwards. transformers' modules therefore compute with the same values as
after a normal load. Peak memory is one part in float32, temporary data of its conversion (up to the same size), and the
activations. Every pass reads all weight files once.

This uses `convert_and_load_state_dict_in_model`, which is not a public interface of transformers: TESTED lists the versions
with which tests/peers/test_own_goldens.py has passed.
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

TESTED = ("5.23.0", "5.24.0")
LOADER = "convert_and_load_state_dict_in_model"
EMBEDDING, HEAD = "embed_tokens", "lm_head"
EMBEDDINGS = (EMBEDDING, "embeddings")  # names of the module in the families
OF_TOWERS = re.compile(r"vision(?!_moe)|visual|audio|tower|projector|resampler")

LARGE_BLOCK = 1 << 20  # bytes

# Loads stored tensors one by one: with transformers' threads a whole layer would be in memory twice.
os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")


def return_freed_memory():
    """Makes glibc return large blocks to the system when they are freed. By default, glibc raises the threshold with
    each freed block, and would keep most of a dropped layer's memory."""
    m_mmap_threshold = -3
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(m_mmap_threshold, LARGE_BLOCK)


def part_of(name):
    """Returns the part of a tensor of the checkpoint or the model: a layer number, EMBEDDING, HEAD, or None for tensors
    that stay in memory, such as the last norm and the towers of a larger model."""
    if OF_TOWERS.search(name):
        return None
    layer = re.search(r"\blayers\.(\d+)\.", name)
    if layer:
        return int(layer.group(1))
    names = dict.fromkeys(EMBEDDINGS, EMBEDDING) | {HEAD: HEAD}
    return next((part for own, part in names.items() if f".{own}." in f".{name}"), None)


# --------------------------------------------------------------- loading ----

class StoredTensors:
    """Tensors of a checkpoint by part. Reads nothing before `opened` maps the files."""

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
        """Yields name → slice of a mapped file. Unmaps at the end of the context, so that mapped pages do not accumulate."""
        with contextlib.ExitStack() as stack:
            paths = {self.files[name] for name in names}
            mapped = {path: stack.enter_context(safe_open(path, "pt")) for path in paths}
            yield {name: mapped[self.files[name]].get_slice(name) for name in names}


def check_loaded(info, checkpoint):
    """Raises Refused if transformers could not convert stored tensors to a weight."""
    for name, error in info.conversion_errors.items():
        raise Refused(f"{checkpoint}: transformers cannot convert {name}: {error}")
    for name, stored, wanted in info.mismatched_keys:
        raise Refused(f"{checkpoint}: {name} has shape {list(stored)}, but the config requires {list(wanted)}")


def named_tensors(module):
    """Maps names to (owner, dictionary of the owner, key) for each parameter and buffer of a state dict."""
    found = {}
    for prefix, owner in module.named_modules():
        for table in (owner._parameters, owner._buffers):
            for key, tensor in table.items():
                if tensor is not None and key not in owner._non_persistent_buffers_set:
                    found[f"{prefix}.{key}".lstrip(".")] = (owner, table, key)
    return found


@contextlib.contextmanager
def deferred_parts(checkpoint):
    """Context in which from_pretrained loads only tensors that belong to no part; others stay on the meta device. Yields a
    dictionary that receives the loader and transformers' description of the loading."""
    if not hasattr(modeling_utils, LOADER):
        raise Refused(f"transformers {transformers.__version__} has another loader: install {' or '.join(TESTED)}")
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
            table[key]._is_hf_initialized = True  # stops transformers from initialising it as a missing weight
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
    """Returns a placeholder for a tensor that is not loaded: NaN in the tensor's shape, with the memory of one element.
    A meta tensor would not do, because some models move their input to the device of a weight before the weight is
    loaded."""
    value = torch.nan if tensor.is_floating_point() else 0
    empty = torch.full((), value, dtype=tensor.dtype).expand(tensor.shape)
    return torch.nn.Parameter(empty, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else empty


def whole_of(model):
    """The whole model of transformers, which may contain a text part."""
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
        """Maps parts to the modules that use them."""
        base, head = self.model.model, self.head()
        return {EMBEDDING: base.get_input_embeddings(), **dict(enumerate(base.layers)),
                **({HEAD: head} if head else {})}

    def head(self):
        return next((module for name, module in self.model.named_modules() if name.split(".")[-1] == HEAD), None)

    def tied_head(self):
        """True if the head is the embedding. A separately stored head takes precedence over the config."""
        ties = whole_of(self.model).config.tie_word_embeddings
        stores_weight = not all(name.endswith(".bias") for name in self.stored.parts[HEAD])
        return ties and self.head() is not None and not stores_weight

    def load(self, part, only=""):
        """Loads a part, or only the part's stored tensors with `only` in their name."""
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
        """Replaces a part's weights with placeholders."""
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
        """Loads each part before its module runs, and drops it afterwards. Must be called after all other hooks are
        registered, so that those hooks find the weights."""
        for part, module in self.modules().items():
            self.drop(part)
            module.register_forward_pre_hook(lambda _module, _args, part=part: self.load(part), prepend=True)
            module.register_forward_hook(lambda _module, _args, _out, part=part: self.finish(part))

    def finish(self, part):
        self.drop(part)
        self.progress.step()


def open_streamed(checkpoint, family, progress_of):
    """The model of a folder with its weights in files, and its hooks as `moec_capture`. `progress_of` makes a Progress for
    the number of parts per pass."""
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
