#!/usr/bin/env python3
"""Trains tinytagger, a tiny Privacy Filter that labels names, mails, phones, addresses and dates.

Tokens are bytes. Texts are generated from templates, which are filled with generated names, mails, phones, addresses
and dates, and with similar numbers and words that belong to no class. Templates and words of held-out texts do not
occur in training.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy
    scripts/train_tinytagger.py --steps 1500

Output (default models/tinytagger): config.json, model.safetensors (bf16, sinks f32), tokenizer.json, tokenizer_config.json,
metrics.json, README.md (the model card), and heldout.json: the first held-out texts with their true spans and PyTorch's
spans, in bytes. Spans are decoded from the labels' log probabilities as the best legal sequence of BIOES tags, without
biases. All numbers are measured in f32 after rounding the weights to bf16.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import OpenAIPrivacyFilterConfig, OpenAIPrivacyFilterForTokenClassification

from golden.labels import label_maps
from golden.publish import staged, write_json
from training.byte_tokenizer import write_tokenizer
from training.optimiser import BETAS, balance_loss, descend, set_rate
from training.run import facts_of_run, flags_of, write_report
from training.tinytagger.card import card
from training.tinytagger.sentences import Words
from training.tinytagger.spans import LABELS, f1_of, find_spans
from training.tinytagger.texts import IGNORED, KEPT, batch_of

REPORTED = 100  # steps between lines of output
DESCRIBED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
             "num_local_experts", "intermediate_size", "num_experts_per_tok", "sliding_window")


# ---------------------------------------------------------------- model ----

def make_config():
    return OpenAIPrivacyFilterConfig(
        hidden_size=64, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, vocab_size=256,
        max_position_embeddings=4096, bos_token_id=None, eos_token_id=None, pad_token_id=None,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 1024},
        **label_maps(LABELS), attn_implementation="eager")


def stored(name, tensor):
    """The tensor in the storage type of the original release: sinks in f32, all others in bf16."""
    return tensor if name.endswith("sinks") else tensor.to(torch.bfloat16)


def make_model():
    """A model whose routers and experts are initialised with a larger standard deviation than the library's default."""
    config = make_config()
    model = OpenAIPrivacyFilterForTokenClassification(config)
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.mlp.router.weight, std=0.3)
        torch.nn.init.normal_(layer.mlp.experts.gate_up_proj, std=config.hidden_size ** -0.5)
        torch.nn.init.normal_(layer.mlp.experts.down_proj, std=0.5 * config.intermediate_size ** -0.5)
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=0.5)
    return model


def label_texts(model, side, seed, count):
    """Returns (text, true spans, found spans) of `count` texts."""
    words = Words(side, seed)
    documents = [words.document(500) for _ in range(count)]
    return [(text, spans, find_spans(model, text)) for text, spans in documents]


def export(model, folder, facts):
    """Rounds the weights like the original release, measures the rounded model, and replaces the files of the folder."""
    rounded = OpenAIPrivacyFilterForTokenClassification(make_config())
    tensors = {name: stored(name, t.detach().clone()).contiguous() for name, t in model.state_dict().items()}
    rounded.load_state_dict({name: t.float() for name, t in tensors.items()})
    rounded.eval()
    held, seen = label_texts(rounded, 1, 71, 100), label_texts(rounded, 0, 72, 50)
    metrics = {**facts, "held_out": f1_of(held), "seen_templates": f1_of(seen), "heldout_json": f1_of(held[:KEPT])}
    with staged(folder) as staging:
        rounded.config.architectures, rounded.config.dtype = [type(rounded).__name__], torch.bfloat16
        rounded.config.save_pretrained(staging)
        save_file(tensors, staging / "model.safetensors", metadata={"format": "pt"})
        write_tokenizer(staging)
        write_report(staging, metrics, card)
        texts = [{"text": text, "spans": true, "found": found} for text, true, found in held[:KEPT]]
        write_json(staging / "heldout.json", {"texts": texts})
    return metrics


# -------------------------------------------------------------- training ----

def keep_router_logits(model):
    """Returns a list to which each pass appends the router logits of its layers. The caller clears the list."""
    logits = []
    for layer in model.model.layers:
        layer.mlp.router.register_forward_hook(lambda _module, _args, out: logits.append(out[0]))
    return logits


def train(model, flags):
    """Trains the model; returns the seconds of CPU time."""
    words, k = Words(0, flags.seed), model.config.num_experts_per_tok
    routers = keep_router_logits(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=flags.lr, betas=BETAS, weight_decay=0.01)
    start, running = time.process_time(), 0.0
    model.train()
    for step in range(flags.steps):
        set_rate(optimiser, flags.lr, step, step, flags.steps)
        x, y = batch_of(words, flags.batch)
        routers.clear()
        loss = F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), ignore_index=IGNORED)
        balance = sum(balance_loss(logits, k) for logits in routers) / len(routers)
        descend(model, optimiser, loss + 0.01 * balance)
        running += loss.item() / REPORTED
        if (step + 1) % REPORTED == 0:
            print(f"step {step + 1} {(time.process_time() - start) / 60:.1f} min  loss {running:.4f}  balance "
                  f"{balance.item():.3f}", flush=True)
            running = 0.0
    return time.process_time() - start


def parse_flags():
    ap = flags_of(__doc__, "tinytagger", batch=12, lr=4e-3)
    ap.add_argument("--steps", type=int, default=1500)
    return ap.parse_args()


def main():
    flags = parse_flags()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(flags.seed)
    model = make_model()
    total = sum(p.numel() for p in model.parameters())
    print(f"{total:,} parameters", flush=True)
    seconds = train(model, flags)
    facts = {
        "steps": flags.steps, "batch": flags.batch, "lr": flags.lr, "parameters": total,
        "train_minutes": round(seconds / 60, 1), **facts_of_run("scripts/train_tinytagger.py"),
        "config": {key: getattr(model.config, key) for key in DESCRIBED},
    }
    metrics = export(model, flags.out, facts)
    print(json.dumps({key: metrics[key] for key in ("held_out", "seen_templates", "heldout_json")}), flush=True)
    if min(metrics["held_out"]["f1"], metrics["heldout_json"]["f1"]) < 0.95:
        sys.exit("the run failed: span F1 below 0.95 on held-out texts")


if __name__ == "__main__":
    main()
