#!/usr/bin/env python3
"""Runs llama.cpp for decode.py: a process that has loaded a GGUF file and answers one line per request line.

    scripts/bench/llama_speed.py FILE.gguf CONTEXT THREADS

Uses the libraries of the package that tests/peers/llama_cpp.py names, with their default parameters except for context
and threads: f16 caches, and flash attention if llama.cpp supports it for the model. Only the logits of the last token
are computed. A text continues after end-of-text tokens.
"""

import ctypes
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/peers"))

import llama_cpp  # noqa: E402
from engines import answer_lines  # noqa: E402

MORE = {
    "llama_batch_get_one": (llama_cpp.Batch, [ctypes.POINTER(ctypes.c_int32), ctypes.c_int32]),
    "llama_get_memory": (ctypes.c_void_p, [ctypes.c_void_p]),
    "llama_memory_clear": (None, [ctypes.c_void_p, ctypes.c_bool]),
}


class Model:
    """A model and one sequence, whose cache holds the tokens `held`."""

    def __init__(self, file, context, threads):
        self.llama = llama = llama_cpp.load_library()
        for name, (returns, takes) in MORE.items():
            getattr(llama, name).restype, getattr(llama, name).argtypes = returns, takes
        llama_cpp.strict_params(llama)  # exits if the layout of the struct is not the expected one
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = context, threads, threads
        llama.llama_backend_init()
        model = llama.llama_model_load_from_file(str(file).encode(), llama.llama_model_default_params())
        self.context = llama.llama_init_from_model(model, params) if model else None
        if not self.context:
            sys.exit(f"{file}: llama.cpp does not load it")
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        self.held = []

    def feed(self, tokens):
        """Returns the most likely token after the held tokens and these."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        code = self.llama.llama_decode(self.context, self.llama.llama_batch_get_one(array, len(tokens)))
        if code != 0:
            sys.exit(f"llama_decode returned {code}")
        self.held += tokens
        logits = self.llama.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def generate(self, prompt, tokens):
        """Returns the most likely tokens after `prompt`. If the prompt continues the held tokens, runs only the rest."""
        if not self.held or prompt[: len(self.held)] != self.held or len(prompt) == len(self.held):
            self.llama.llama_memory_clear(self.llama.llama_get_memory(self.context), True)
            self.held = []
        written = [self.feed(prompt[len(self.held) :])]
        while len(written) < tokens:
            written.append(self.feed(written[-1:]))
        return written


if __name__ == "__main__":
    answer_lines(Model(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).generate)
