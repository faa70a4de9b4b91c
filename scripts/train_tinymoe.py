#!/usr/bin/env python3
"""Train tinymoe: a small but really trained Qwen3-MoE byte model for tests and demos.

Every token is one byte. The text comes from the machine the script runs on (the
Python library, its documentation, installed manuals) and from two generators in this
file (arithmetic, JSON records), so no data set is downloaded and none is committed.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy
    scripts/train_tinymoe.py --minutes 25

Output (default models/tinymoe): config.json, generation_config.json,
model.safetensors (bf16, one matrix per expert), tokenizer.json,
tokenizer_config.json, metrics.json and README.md (the model card).
All reported numbers are measured on the weights after rounding to bf16.
"""

import argparse
import ast
import gzip
import hashlib
import itertools
import json
import math
import os
import platform
import random
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

REPO = Path(__file__).resolve().parent.parent
DOMAINS = ["python", "english", "arithmetic", "json"]
MIX = {"python": 0.36, "english": 0.36, "arithmetic": 0.14, "json": 0.14}
SEQ = 256


# ---------------------------------------------------------------- data ----

def held_out(name):
    """Whole documents go to one side: about one in twenty is held out, by its name."""
    return hashlib.sha256(name.encode()).digest()[0] < 13


def is_text(raw):
    return len(raw) > 400 and b"\0" not in raw and sum(b > 126 for b in raw[:4000]) < 40


def python_files():
    lib = Path(sysconfig.get_path("stdlib"))
    skip = {"site-packages", "__pycache__", "test", "tests", "idle_test", "lib2to3",
            "encodings", "pydoc_data", "dist-packages"}
    for path in sorted(lib.rglob("*.py")):
        rel = path.relative_to(lib)
        if not skip & set(rel.parts):
            raw = path.read_bytes()
            if is_text(raw):
                yield str(rel), raw


def docstrings(source):
    """All docstrings of one Python file, joined in order."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    parts = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) > 120:
                parts.append(text)
    return "\n\n".join(parts)


def english_files():
    """(name, bytes) of prose: help topics, docstrings, installed manuals, licences."""
    import pydoc_data.topics
    for key, text in sorted(pydoc_data.topics.topics.items()):
        yield f"topic/{key}", text.encode()
    for name, raw in python_files():
        # the same name as the source: a held-out source's docstrings are held out too
        text = docstrings(raw)
        if len(text) > 400:
            yield name, text.encode("utf-8", "replace")
    lib = Path(sysconfig.get_path("stdlib"))
    roots = [(lib, {"site-packages", "test", "tests"}), (Path("/usr/share/doc"), set()),
             (Path("/usr/share/vim"), {"syntax", "lang"})]
    bad = ("change", "news", "history", "copyright", "symbols", "testcase", "todo",
           "author", "thanks", "credit", "version", "tags", "licen")
    for root, skip in roots:
        if not root.is_dir():
            continue
        for path in sorted(root.rglob("*")):
            base = path.name.lower()
            stem = base[:-3] if base.endswith(".gz") else base
            named = stem.endswith((".txt", ".md", ".rst")) or stem.startswith(("readme", "faq"))
            if (not named or any(b in base for b in bad) or skip & set(path.parts)
                    or not path.is_file() or path.is_symlink()):
                continue
            try:
                raw = path.read_bytes()
                raw = gzip.decompress(raw) if base.endswith(".gz") else raw
            except (OSError, EOFError):
                continue
            yield str(path), raw[:200_000]
    licences = Path("/usr/share/common-licenses")
    if licences.is_dir():
        for path in sorted(licences.iterdir()):
            if path.is_file() and not path.is_symlink():
                yield str(path), path.read_bytes()


def arithmetic(rng, size):
    out, total = [], 0
    while total < size:
        op = rng.choice("++--**//%<")
        a, b = rng.randrange(10 ** rng.randint(1, 4)), rng.randrange(1, 10 ** rng.randint(1, 3))
        if op == "+":
            line = f"{a} + {b} = {a + b}\n"
        elif op == "-":
            line = f"{a} - {b} = {a - b}\n"
        elif op == "*":
            a, b = a % 100, b % 13
            line = f"{a} * {b} = {a * b}\n"
        elif op == "/":
            line = f"{a} / {b} = {a // b} rem {a % b}\n"
        elif op == "%":
            c = rng.randrange(100)
            line = f"({a % 100} + {b % 100}) + {c} = {a % 100 + b % 100} + {c} = {a % 100 + b % 100 + c}\n"
        else:
            line = f"{a} {'<' if a < b else '>' if a > b else '='} {b}\n"
        out.append(line)
        total += len(line)
    return "".join(out).encode()


def json_records(rng, size):
    names = "ada alan barbara claude donald edsger frances grace john ken leslie margaret niklaus radia".split()
    cities = "Bergen Cairo Delft Kyoto Lagos Lima Lyon Oslo Perth Quito Riga Tunis".split()
    words = "alpha beta cold dark east fast green heavy iron light north old paper quiet river stone".split()
    out, total = [], 0
    while total < size:
        kind = rng.randrange(4)
        if kind == 0:
            name = rng.choice(names)
            rec = {"id": rng.randrange(100000), "name": name, "email": f"{name}@example.org",
                   "city": rng.choice(cities), "age": rng.randint(18, 90), "active": rng.random() < 0.5}
        elif kind == 1:
            qty, price = rng.randint(1, 9), rng.randint(1, 50)
            rec = {"order": rng.randrange(100000), "items": [
                {"sku": f"{rng.choice(words)}-{rng.randrange(100)}", "qty": qty, "price": price, "sum": qty * price}
                for _ in range(rng.randint(1, 3))], "paid": rng.random() < 0.7}
        elif kind == 2:
            rec = {"event": rng.choice(["start", "stop", "error", "retry"]),
                   "time": f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
                           f"T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00Z",
                   "host": f"{rng.choice(words)}{rng.randrange(10)}", "level": rng.randrange(4), "detail": None}
        else:
            rec = {"point": {"x": rng.randint(-99, 99), "y": rng.randint(-99, 99)},
                   "tags": sorted(rng.sample(words, rng.randint(1, 4))), "ok": True}
        line = json.dumps(rec, indent=2 if rng.random() < 0.2 else None) + "\n"
        out.append(line)
        total += len(line)
    return "".join(out).encode()


def load_data():
    """{domain: (train, held-out)} as uint8 arrays, and a note of where it came from."""
    train = {d: [] for d in DOMAINS}
    held = {d: [] for d in DOMAINS}
    seen, files = set(), {d: [0, 0] for d in DOMAINS}
    for domain, source in (("python", python_files()), ("english", english_files())):
        for name, raw in source:
            digest = hashlib.sha256(raw).digest()
            if not is_text(raw) or digest in seen:
                continue
            seen.add(digest)
            out = held_out(name)
            (held if out else train)[domain].append(raw + b"\n\n")
            files[domain][out] += 1
    for domain, make in (("arithmetic", arithmetic), ("json", json_records)):
        train[domain] = [make(random.Random(1), 4_000_000)]
        held[domain] = [make(random.Random(2), 200_000)]
    for domain in ("python", "english"):
        random.Random(3).shuffle(held[domain])  # so that a slice of it covers many files
    data = {d: tuple(np.frombuffer(b"".join(p[d]), np.uint8) for p in (train, held)) for d in DOMAINS}
    return data, files


def windows(array, count, rng):
    starts = rng.integers(0, len(array) - SEQ - 1, count)
    return np.stack([array[s:s + SEQ + 1] for s in starts])


def order0(array):
    p = np.bincount(array, minlength=256) / len(array)
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


# ---------------------------------------------------------------- model ----

def make_config():
    return Qwen3MoeConfig(
        vocab_size=256, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, num_experts=16, num_experts_per_tok=2,
        moe_intermediate_size=80, intermediate_size=256, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[], hidden_act="silu", rms_norm_eps=1e-6,
        max_position_embeddings=512, tie_word_embeddings=False, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        initializer_range=0.05, use_sliding_window=False, output_router_logits=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )


def router_losses(router_logits, k):
    """Two losses that keep the router healthy, each averaged over the layers.

    balance = E * sum_e fraction_e * probability_e, where fraction_e is the share of
    (token, slot) pairs sent to expert e and probability_e its mean softmax score;
    it is 1 when both are uniform. z = mean of logsumexp(logits)^2, which keeps the
    logits small.
    """
    balance = z = 0.0
    for logits in router_logits:
        experts = logits.shape[-1]
        scores = logits.softmax(-1)
        chosen = scores.topk(k, dim=-1).indices
        fraction = F.one_hot(chosen, experts).float().mean((0, 1))
        balance = balance + experts * (fraction * scores.mean(0)).sum()
        z = z + logits.logsumexp(-1).square().mean()
    return balance / len(router_logits), z / len(router_logits)


def byte_level_alphabet():
    """byte -> printable character, the GPT-2 convention."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = itertools.count(256)
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def write_tokenizer(folder):
    spec = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {c: i for i, c in enumerate(byte_level_alphabet())}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512,
         "clean_up_tokenization_spaces": False}, indent=1) + "\n")

    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in ("Héllo", "a b\n\tc  d", "日本 ☃", "".join(map(chr, range(1, 300)))):
        ids = tok.encode(text).ids
        assert ids == list(text.encode()), text
        assert tok.decode(ids) == text, text


# ------------------------------------------------------------- measuring ----

def evaluate(model, data, batches):
    """Bits per byte and expert use on held-out windows, the same windows every time."""
    cfg = model.config
    layers, experts, k = cfg.num_hidden_layers, cfg.num_experts, cfg.num_experts_per_tok
    bits, use, margins, spread = {}, {}, [], []
    model.eval()
    for d in DOMAINS:
        rng = np.random.default_rng(11)
        loss, count = 0.0, np.zeros((layers, experts))
        for _ in range(batches):
            x = torch.from_numpy(windows(data[d][1], 16, rng).astype(np.int64))
            with torch.no_grad():
                out = model(x[:, :-1], output_router_logits=True, use_cache=False)
            loss += F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten()).item()
            for i, logits in enumerate(out.router_logits):
                top = logits.topk(k + 1, dim=-1)
                count[i] += np.bincount(top.indices[:, :k].flatten().numpy(), minlength=experts)
                margins.append((top.values[:, k - 1] - top.values[:, k]).numpy())
                spread.append(logits.std(-1).numpy())
        bits[d] = loss / batches / math.log(2)
        use[d] = count / count.sum(1, keepdims=True)
    model.train()
    overall = np.mean([use[d] for d in DOMAINS], axis=0)
    ranked = np.sort(overall, axis=1)
    n = experts
    gini = ((2 * np.arange(1, n + 1) - n - 1) * ranked).sum(1) / (n * ranked.sum(1))
    tv = {f"{a}/{b}": (np.abs(use[a] - use[b]).sum(1) / 2) for a, b in itertools.combinations(DOMAINS, 2)}
    margins, spread = np.concatenate(margins), np.concatenate(spread)
    return {
        "held_out_bytes_per_domain": batches * 16 * SEQ,
        "bits_per_byte": {**{d: round(bits[d], 4) for d in DOMAINS},
                          "mean": round(float(np.mean(list(bits.values()))), 4)},
        "order0_entropy": {d: round(order0(data[d][1]), 4) for d in DOMAINS},
        "utilisation": {d: np.round(use[d], 4).tolist() for d in DOMAINS},
        "utilisation_overall": np.round(overall, 4).tolist(),
        "least_used_share": [round(float(v), 4) for v in overall.min(1)],
        "gini_per_layer": [round(float(g), 4) for g in gini],
        "total_variation": {p: [round(float(x), 4) for x in v] for p, v in tv.items()},
        "total_variation_mean_per_layer": [round(float(x), 4) for x in np.mean(list(tv.values()), axis=0)],
        "router_logit_std_mean": round(float(spread.mean()), 4),
        "router_margin_percentiles": {str(p): round(float(np.percentile(margins, p)), 5) for p in (0.1, 1, 10, 50)},
    }


def headroom(model, data):
    """Largest absolute value at any module output on held-out text: f16 ends at 65504."""
    peak = [0.0]
    def look(_module, _args, out):
        if torch.is_tensor(out) and out.is_floating_point():
            peak[0] = max(peak[0], out.abs().max().item())
    handles = [m.register_forward_hook(look) for m in model.modules()]
    rng = np.random.default_rng(12)
    model.eval()
    with torch.no_grad():
        for d in DOMAINS:
            model(torch.from_numpy(windows(data[d][1], 16, rng)[:, :-1].astype(np.int64)), use_cache=False)
    model.train()
    for h in handles:
        h.remove()
    return round(peak[0], 3)


PROMPTS = ["def __init__(self, ", "The file is opened ", "17 + 25 = ", '{"id": 4']


def samples(model):
    model.eval()
    out = {}
    for p in PROMPTS:
        ids = torch.tensor([list(p.encode())])
        got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=120, do_sample=False)
        out[p] = bytes(got[0].tolist()).decode("utf-8", "replace")
    model.train()
    return out


def card(m):
    b, h = m["bits_per_byte"], m["order0_entropy"]
    c = m["config"]
    lines = [
        "# tinymoe", "",
        "A small Qwen3-MoE byte model (one token = one byte), trained so that tests and demos have a router",
        "that really decides something. Written by `scripts/train_tinymoe.py`; every number below was measured",
        "by that script on the weights after rounding to bf16. It is a test fixture, not a useful language model.", "",
    ]
    if m["provisional"]:
        lines += ["**Provisional checkpoint: training was still running when this was written.**", ""]
    lines += [
        f"- Parameters: {m['parameters']:,} ({m['active_parameters']:,} used per token), "
        f"{c['num_hidden_layers']} layers, hidden {c['hidden_size']}, "
        f"{c['num_attention_heads']}/{c['num_key_value_heads']} heads of {c['head_dim']}, {c['experts']} experts of "
        f"width {c['moe_intermediate_size']}, top-{c['top_k']}, weights renormalised, untied head.",
        f"- Training: {m['steps']:,} steps, {m['tokens']:,} tokens, {m['train_minutes']:.1f} minutes of wall-clock "
        f"on {m['threads']} CPU threads, sequence {SEQ}, AdamW, cosine learning rate.",
        f"- Loss: cross entropy + {m['balance_coef']} x load balance + {m['z_coef']} x router z-loss.",
        f"- Versions: torch {m['versions']['torch']}, transformers {m['versions']['transformers']}, "
        f"Python {m['versions']['python']}.",
        f"- Command: `{m['command']}`",
        "- Data: Python's library sources; English documentation found on the machine (help topics, docstrings,",
        "  installed manuals, licence texts); generated arithmetic; generated JSON. Held-out documents are whole",
        "  files chosen by a hash of their name; generated domains use another seed.",
        f"- Training bytes: " + ", ".join(f"{d} {m['train_bytes'][d]:,}" for d in DOMAINS) + ".",
        "", "## Held-out bits per byte", "",
        f"{m['held_out_bytes_per_domain']:,} bytes a domain, windows of {SEQ}; the order-0 column is the entropy of "
        "the domain's byte histogram.", "",
        "| domain | bits/byte | order-0 entropy |", "|---|---|---|",
        *[f"| {d} | {b[d]:.3f} | {h[d]:.3f} |" for d in DOMAINS],
        f"| mean | {b['mean']:.3f} | {np.mean(list(h.values())):.3f} |",
        "", "## Expert use", "",
        f"Percent of a layer's (token, slot) pairs per expert; an even split is {100 / c['experts']:.2f}.", "",
        "| layer | domain | " + " | ".join(f"e{e}" for e in range(c["experts"])) + " |",
        "|---|---|" + "---|" * c["experts"],
    ]
    for i in range(c["num_hidden_layers"]):
        for d in [*DOMAINS, "all"]:
            row = m["utilisation_overall"][i] if d == "all" else m["utilisation"][d][i]
            lines.append(f"| {i} | {d} | " + " | ".join(f"{100 * v:.1f}" for v in row) + " |")
    lines += [
        "", "Gini index of the use over all domains (0 = even), the least used expert's share, and the total variation",
        "distance between two domains' use (0 = same experts, 1 = disjoint), mean over the domain pairs:", "",
        "| layer | Gini | least used | distance between domains | " + " | ".join(m["total_variation"]) + " |",
        "|---|---|---|---|" + "---|" * len(m["total_variation"]),
    ]
    for i in range(c["num_hidden_layers"]):
        lines.append(f"| {i} | {m['gini_per_layer'][i]:.3f} | {100 * m['least_used_share'][i]:.1f} % | "
                     f"{m['total_variation_mean_per_layer'][i]:.3f} | "
                     + " | ".join(f"{v[i]:.3f}" for v in m["total_variation"].values()) + " |")
    q = m["router_margin_percentiles"]
    lines += [
        "", f"Router logits have a mean standard deviation of {m['router_logit_std_mean']:.2f} over the experts. "
        f"The gap between the k-th and the next logit is {q['50']:.3f} at the median, "
        f"{q['1']:.4f} at the first percentile "
        f"and {q['0.1']:.5f} at the first permille.",
        f"The largest absolute value at any module's output on held-out text is {m['peak_activation']:.1f} "
        "(f16 ends at 65504).",
        "", "## Greedy samples", "",
    ]
    for text in m["samples"].values():
        lines += ["```text", text.replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def export(model, data, folder, facts, batches):
    """Round to bf16, measure that, and replace the files of the output folder one by one."""
    rounded = Qwen3MoeForCausalLM(make_config())
    rounded.load_state_dict({k: v.to(torch.bfloat16).float() for k, v in model.state_dict().items()})
    rounded.config._experts_implementation = model.config._experts_implementation
    metrics = {**facts, **evaluate(rounded, data, batches)}
    metrics["peak_activation"] = headroom(rounded, data)
    metrics["samples"] = samples(rounded)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".tinymoe-") as tmp:
        tmp = Path(tmp)
        rounded.to(torch.bfloat16).save_pretrained(tmp)
        write_tokenizer(tmp)
        digest = hashlib.sha256((tmp / "model.safetensors").read_bytes()).hexdigest()
        metrics["weights_sha256"] = digest
        (tmp / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
        (tmp / "README.md").write_text(card(metrics), encoding="utf-8")
        for path in sorted(tmp.iterdir()):
            os.chmod(path, 0o644)
            os.replace(path, folder / path.name)
    return metrics


# -------------------------------------------------------------- training ----

def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, default=REPO / "models" / "tinymoe")
    ap.add_argument("--minutes", type=float, default=25, help="wall-clock of the training loop")
    ap.add_argument("--provisional", type=float, default=5, help="also export after this many minutes (0 = do not)")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2.5e-3)
    ap.add_argument("--balance", type=float, default=0.01)
    ap.add_argument("--z", type=float, default=0.001)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--experts-implementation", default="grouped_mm", choices=["eager", "grouped_mm", "batched_mm"])
    ap.add_argument("--work", type=Path, help="folder for the periodic training checkpoint (default: a temporary one)")
    args = ap.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    data, files = load_data()
    for d in DOMAINS:
        print(f"{d}: train {len(data[d][0]):,} bytes ({files[d][0]} files), "
              f"held out {len(data[d][1]):,} ({files[d][1]} files), order-0 {order0(data[d][1]):.3f}", flush=True)
        if len(data[d][1]) < 10 * SEQ or len(data[d][0]) < 100 * SEQ:
            sys.exit(f"too little text for the domain {d} on this machine")

    model = Qwen3MoeForCausalLM(make_config())
    model.config._experts_implementation = args.experts_implementation
    cfg = model.config
    with torch.no_grad():  # start the residual branches small, as depth-scaled initialisation does
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.5)
            layer.mlp.experts.down_proj.mul_(0.5)
    total = sum(p.numel() for p in model.parameters())
    expert = sum(p.numel() for n, p in model.named_parameters() if ".experts." in n)
    active = total - expert + expert * cfg.num_experts_per_tok // cfg.num_experts
    print(f"{total:,} parameters, {active:,} active", flush=True)

    decay = [p for n, p in model.named_parameters() if p.dim() > 1 and "embed" not in n]
    plain = [p for n, p in model.named_parameters() if not (p.dim() > 1 and "embed" not in n)]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                            lr=args.lr, betas=(0.9, 0.98), eps=1e-8)
    work = args.work or Path(tempfile.mkdtemp(prefix="tinymoe-"))
    work.mkdir(parents=True, exist_ok=True)

    def facts(step, minutes, provisional):
        return {
            "provisional": provisional, "steps": step, "tokens": step * args.batch * SEQ,
            "train_minutes": round(minutes, 2), "threads": args.threads, "batch": args.batch, "lr": args.lr,
            "balance_coef": args.balance, "z_coef": args.z, "parameters": total, "active_parameters": active,
            "command": " ".join(["scripts/train_tinymoe.py", *sys.argv[1:]]),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                         "python": platform.python_version()},
            "config": {"num_hidden_layers": cfg.num_hidden_layers, "hidden_size": cfg.hidden_size,
                       "num_attention_heads": cfg.num_attention_heads, "head_dim": cfg.head_dim,
                       "num_key_value_heads": cfg.num_key_value_heads, "experts": cfg.num_experts,
                       "top_k": cfg.num_experts_per_tok, "moe_intermediate_size": cfg.moe_intermediate_size},
            "train_bytes": {d: len(data[d][0]) for d in DOMAINS},
        }

    start, paused, step, last_save = time.monotonic(), 0.0, 0, 0.0
    provisional_due = args.provisional > 0
    budget = args.minutes * 60
    warmup = 60
    running = np.zeros(3)
    model.train()
    while True:
        elapsed = time.monotonic() - start - paused
        if elapsed >= budget:
            break
        # the schedule follows the clock, so a slow machine still ends with a small rate
        rate = args.lr * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * elapsed / budget)))
        rate *= min(1.0, (step + 1) / warmup)
        for group in opt.param_groups:
            group["lr"] = rate
        counts = rng.multinomial(args.batch, [MIX[d] for d in DOMAINS])
        x = np.concatenate([windows(data[d][0], n, rng) for d, n in zip(DOMAINS, counts) if n])
        x = torch.from_numpy(x.astype(np.int64))
        out = model(x[:, :-1], output_router_logits=True, use_cache=False)
        loss = F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten())
        balance, z = router_losses(out.router_logits, cfg.num_experts_per_tok)
        opt.zero_grad(set_to_none=True)
        (loss + args.balance * balance + args.z * z).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        running += [loss.item() / math.log(2), balance.item(), z.item()]
        if step % 50 == 0:
            r = running / 50
            running[:] = 0
            speed = step * args.batch * SEQ / max(elapsed, 1e-9) / 1e3
            print(f"step {step} {elapsed / 60:.1f} min  {speed:.1f}k tok/s  "
                  f"bits/byte {r[0]:.3f}  balance {r[1]:.3f}  z {r[2]:.2f}  lr {rate:.2e}", flush=True)
        if elapsed - last_save > 120:
            last_save = elapsed
            torch.save(model.state_dict(), work / "model.tmp")
            os.replace(work / "model.tmp", work / "model.pt")
        if provisional_due and elapsed >= args.provisional * 60:
            provisional_due = False
            t0 = time.monotonic()
            m = export(model, data, args.out, facts(step, elapsed / 60, True), 4)
            print("provisional", json.dumps(m["bits_per_byte"]), "gini", m["gini_per_layer"], flush=True)
            paused += time.monotonic() - t0

    m = export(model, data, args.out, facts(step, (time.monotonic() - start - paused) / 60, False), 16)
    shown = ("bits_per_byte", "order0_entropy", "gini_per_layer", "least_used_share",
             "total_variation_mean_per_layer", "peak_activation")
    print("final", json.dumps({k: m[k] for k in shown}), flush=True)
    if not args.work:
        shutil.rmtree(work, ignore_errors=True)
    if m["bits_per_byte"]["mean"] > 3.0 or max(m["gini_per_layer"]) > 0.6:
        sys.exit("the run failed: too many bits per byte, or a collapsed router")


if __name__ == "__main__":
    main()
