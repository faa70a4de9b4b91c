#!/usr/bin/env python3
"""Runs onnxruntime-genai for decode.py: a process that has loaded a folder and answers one line per request line.

    scripts/bench/genai_speed.py FOLDER CONTEXT THREADS

End-of-text tokens are never chosen, so that every text has the requested length.
"""

import json
import sys

import onnxruntime_genai
from engines import answer_lines


class Model:
    """A model and one generator, which has the tokens `held`; the last of them may not be in its cache yet."""

    def __init__(self, folder, context, threads):
        config = onnxruntime_genai.Config(folder)
        session = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
        self.model, self.context = onnxruntime_genai.Model(config), context
        self.generator, self.held = None, []

    def generate(self, prompt, tokens):
        """Returns the most likely tokens after `prompt`. If the prompt is the held tokens, continues with them."""
        if prompt != self.held:
            params = onnxruntime_genai.GeneratorParams(self.model)
            # Below the minimum length, which includes the prompt, end-of-text tokens are excluded.
            params.set_search_options(min_length=self.context, max_length=self.context, do_sample=False)
            self.generator = onnxruntime_genai.Generator(self.model, params)
            self.generator.append_tokens(prompt)
        written = []
        while len(written) < tokens and not self.generator.is_done():
            self.generator.generate_next_token()
            written.append(int(self.generator.get_next_tokens()[0]))
        self.held = prompt + written
        return written


if __name__ == "__main__":
    answer_lines(Model(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).generate)
