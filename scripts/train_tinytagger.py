#!/usr/bin/env python3
"""Train tinytagger: a tiny Privacy Filter that labels names, mails, phones, addresses and dates.

Every token is one byte. Texts are made up here: sentences from templates, filled with generated
names, mails, phones, addresses and dates, among numbers and words that look like them but are none.
The templates and the words of the held-out texts do not occur in training.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy
    scripts/train_tinytagger.py --steps 1500

Output (default models/tinytagger): config.json, model.safetensors (bf16, sinks f32),
tokenizer.json, tokenizer_config.json, metrics.json, README.md (the model card), and heldout.json: the
first of the held-out texts with their true spans and with those that PyTorch finds, in bytes. Spans are decoded
from the labels' log probabilities by the best legal sequence of BIOES tags, without biases. All
numbers are measured on the weights after rounding to bf16, in f32.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import OpenAIPrivacyFilterConfig, OpenAIPrivacyFilterForTokenClassification

from train_tinymoe import write_tokenizer

REPO = Path(__file__).resolve().parent.parent
CLASSES = ["private_address", "private_date", "private_email", "private_person", "private_phone"]
LABELS = ["O", *(f"{tag}-{name}" for name in CLASSES for tag in "BIES")]
SEQ = 144
KEPT = 20   # held-out texts that are written down
IGNORED = -100  # a label that the loss leaves out


# ---------------------------------------------------------------- data ----

def split(words):
    """(for training, held out): every fifth word, by its place in the list, is held out."""
    words = words.split()
    return [w for i, w in enumerate(words) if i % 5 != 4], words[4::5]


FIRST = split("""
    Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karin Leo Maria Nils Olga Paul Rosa Simon Tara
    Ulrich Vera Walter Xenia Yusuf Zoe Adam Bella Carl Dora Erik Fiona Georg Hanna Ivan Julia Kevin Laura Mark Nora
    Oscar Petra Quentin Rita Stefan Tina Uma Victor Wanda Abel Berta Cyril Daria Emil Flora Gustav Helga Igor Jana
    Kurt Lena Martin Nadia Otto Paula Ralf Sara Theo Ursula Vincent Wilma Alan Beth Colin Diana Edgar Freya Gavin
    Heidi Ian Joyce Keith Lydia Miles Naomi Oliver Pamela Roger Sophie Trevor Valerie Warren Amir Chen Diego Fatima
    Hiro Ines Javier Kenji Leila Mateo Noor Pedro Raj Sana Tomas Wei Aiko Bruno Camila Dmitri Esra Farid Gita Hamid""")
LAST = split("""
    Adler Baker Castle Dorn Ekberg Fischer Graham Holm Iverson Jansen Keller Lindqvist Moreno Novak Oduya Parker
    Quist Rossi Schmidt Turner Ullman Varga Weber Yamada Ziegler Archer Bishop Carver Dalton Ellis Foster Garner
    Hansen Irving Jordan Kramer Larson Mason Nolan Osborn Porter Quinn Ramsey Sawyer Tanner Upton Vaughn Walker
    Abbott Brandt Coleman Drexler Engel Farmer Gruber Hughes Ibsen Jacobs Knight Lambert Meyer Norris Olsen Pierce
    Richter Sanders Thorne Unger Vogel Winkler Young Zimmer Alvarez Becker Conti Duarte Eriksen Ferrari Gomez
    Haddad Ito Jovanovic Kim Lopez Marino Nakamura Ortega Petrov Rahman Santos Tanaka Usman Volkov Wong Yilmaz""")
STREETS = split("""
    Maple Harbor Cedar Mill Orchard Station River Church Garden Summit Willow Bridge Chestnut Meadow Quarry Forest
    Lake Market School Sunset Birch Castle Dale Elm Field Grove Hill Ivy Juniper King Laurel Magnolia North Oak
    Park Queen Rose Spring Temple Union Valley West Abbey Beacon Canal Dove Empire Falcon Granite Heather""")
TOWNS = split("""
    Springfield Riverton Lakewood Ashford Milbrook Oakdale Fairview Kingsport Brookside Hillcrest Westfield Greenville
    Northam Eastleigh Southbury Claremont Stonebridge Redwood Silverton Maplewood Bayview Foxborough Glenwood Harwich
    Ironwood Kelso Linden Marlow Newbury Overton Pineville Rockford Salem Thornton Vernon Windsor Alton Benton Camden
    Dover""")
STREET_KINDS = ["Street", "Road", "Avenue", "Lane", "Drive", "Court", "St.", "Rd.", "Ave.", "Way", "Place"]
HOSTS = split("""
    mailbox postbox inbox webmail letters quickmail bluepost northmail openpost citymail skymail fastbox homemail
    worknet datapost greenbox starmail linkpost riverbox papermail cloudpost brightbox tinymail oakpost seamail""")
ENDINGS = ["com", "org", "net", "example", "io", "co.uk", "de", "eu"]
MONTHS = ("January February March April May June July August September October November December").split()
THINGS = split("""
    report parcel invoice printer garden meeting window project ticket engine backup contract recipe camera lecture
    budget server ladder poster library kettle concert bicycle sample folder museum blanket battery journal cabinet
    lantern workshop keyboard summary carpet""")
COMPANIES = split("""
    Norvex Altira Bexcom Candela Drumlin Everest Fenwick Glowtec Helion Inspira Jubilant Kestrel Lumina Metricon
    Nimbus Orbital Pinnacle Quasar Ridgeway Solaris""")

# {person} and its like are labelled; the others stand for what is none of it.
TRAINING = [
    "My name is {person}.", "I am {person} from {company}.", "Please call {person} at {phone}.",
    "Write to {person} at {email}.", "{person} lives at {address}.", "{person} was born on {date}.",
    "You can reach me at {phone} or {email}.", "The {thing} was sent to {address} on {date}.",
    "Contact: {person}, {email}, {phone}", "Dear {person},", "Regards, {person}", "{person} called about the {thing}.",
    "Phone: {phone}", "Email: {email}", "Address: {address}", "Date of birth: {date}", "Name: {person}",
    "Her number is {phone}.", "His mail is {email}.", "We moved to {address} in spring.",
    "The appointment of {person} is on {date}.", "Ask {person} or {person} about the {thing}.",
    "Send the {thing} to {person}, {address}.", "{person} ({email}) has the {thing}.",
    "{person} paid for the {thing} on {date}.", "Since {date} the {thing} belongs to {person}.",
    "If nobody answers at {phone}, try {email}.", "from {email} to {email}", "tel. {phone}, mail {email}",
    "Yesterday {person} met {person} in {town}.", "The guests were {person}, {person} and {person}.",
    "Deliver it to {address} before {date}, please.", "Did {person} say when?", "Thanks, {person}!",
    "I told {person} that the {thing} is ready.", "{email} is no longer in use.", "{phone} is busy all day.",
    "Patient {person}, born {date}, {address}", "Reply to {email} by {date}.", "signed by {person} on {date}",
    "The {thing} costs {price}.", "Order {number} has {count} items.", "Room {count} is on floor {count}.",
    "The meeting starts at {time}.", "{company} sold {number} units of the {thing}.", "Version {version} is out.",
    "The train to {town} leaves at {time}.", "Nobody has seen the {thing} since Monday.",
    "Please check the {thing} again.", "It rained in {town} all week.", "Our {thing} is {count} years old.",
    "The total is {price} for {count} of them.", "Ticket {number} is closed.", "See page {count} of the manual.",
    "{company} opens a new office in {town}.", "The {thing} weighs {count} kg.", "That was in {year}.",
    "About {count} people came to the {thing}.", "We need {count} more for the {thing}.", "Code {code} has expired.",
    "The {thing} of {company} is better.", "Half of the {thing} is missing.", "Is the {thing} still there?",
    "My order {number} is late.", "Invoice {number} is about parcel {number}.", "Call me about {number} of them.",
    "Either way, the {thing} is lost.", "On Monday the {thing} will be back.", "Only the {thing} is new in {town}.",
    "Forward the {thing} to {company}, please.", "They went from {town} to {town}, and not to {town}.",
    "{company} and {company} moved to {town}.", "{town} is near {town}.", "{company} wrote about order {number}.",
    "Our records of the {thing} are old.", "This is the {thing} for {company}.", "{company} asked for the {thing}.",
    "{town} has {count} schools.", "Back in {town} the {thing} broke.", "Records say that {number} is wrong.",
    "For {town} take line {count}.", "I spoke about the {thing} with {company}.",
]
HELD_OUT = [
    "This is {person} speaking.", "Forward all mail for {person} to {address}.", "Call back {phone} before {time}.",
    "{person} wrote from {email} about the {thing}.", "Our records say {date} for {person}.",
    "The {thing} goes to {address}, not to {town}.", "Either {phone} or {email} will do.",
    "On {date} we visited {person} in {town}.", "I spoke with {person} about order {number}.",
    "Mail: {email}, phone: {phone}", "The {thing} arrived at {address} on {date}.",
    "{company} asked {person} for {count} of them.", "Ticket {number} costs {price}.",
    "The {thing} opens at {time} in {town}.", "Only {count} of the {thing} were sold by {company}.",
]


class Words:
    """The made-up facts of one side of the split: 0 training, 1 held out."""

    def __init__(self, side, seed):
        self.side, self.r = side, random.Random(seed)

    def of(self, lists):
        return self.r.choice(lists[self.side])

    def digits(self, n):
        return "".join(self.r.choice("0123456789") for _ in range(n))

    def made_up(self):
        """A name of syllables, so that the model learns where names stand, and not a list of them."""
        syllables = [self.r.choice("b c d f g h j k l m n p r s t v w z br st tr".split())
                     + self.r.choice("a e i o u ai ea".split()) for _ in range(self.r.randint(1, 3))]
        return ("".join(syllables) + self.r.choice(["", "n", "r", "s", "l", "m"])).capitalize()

    def name(self, lists):
        return self.made_up() if self.side == 0 and self.r.random() < 0.35 else self.of(lists)

    def person(self):
        """Never one word: that alone could as well be a town."""
        first, last = self.name(FIRST), self.name(LAST)
        return self.r.choice([f"{first} {last}"] * 5 + [f"{first} {last[0]}. {self.name(LAST)}",
                             f"{self.r.choice(['Dr.', 'Mr.', 'Ms.'])} {last}"])

    def email(self):
        first, last, host = self.name(FIRST).lower(), self.name(LAST).lower(), self.name(HOSTS).lower()
        local = self.r.choice([f"{first}.{last}", f"{first[0]}{last}", f"{first}{self.digits(2)}", f"{last}_{first}",
                               first])
        return f"{local}@{host}.{self.r.choice(ENDINGS)}"

    def phone(self):
        d = self.digits
        return self.r.choice([f"+{self.r.randint(1, 99)} {d(3)} {d(7)}", f"({d(3)}) {d(3)}-{d(4)}", f"{d(3)}-{d(3)}-{d(4)}",
                              f"0{d(3)} {d(6)}", f"+{self.r.randint(1, 99)}-{d(2)}-{d(4)}-{d(4)}", f"{d(3)}.{d(3)}.{d(4)}"])

    def address(self):
        road = f"{self.r.randint(1, 999)} {self.name(STREETS)} {self.r.choice(STREET_KINDS)}"
        town = self.name(TOWNS)
        return self.r.choice([road, f"{road}, {town}", f"{road}, {town} {self.digits(5)}",
                              f"Apt. {self.r.randint(1, 40)}, {road}, {town}"])

    def date(self):
        day, month, year = self.r.randint(1, 28), self.r.randint(1, 12), self.r.randint(1930, 2029)
        name = MONTHS[month - 1]
        return self.r.choice([f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}", f"{day}.{month}.{year}",
                              f"{day} {name} {year}", f"{name} {day}, {year}", f"{day} {name[:3]} {year}"])

    def fill(self, what):
        if what in ("person", "email", "phone", "address", "date"):
            return getattr(self, what)()
        r = self.r
        return {
            "thing": lambda: self.of(THINGS), "town": lambda: self.name(TOWNS),
            "company": lambda: self.name(COMPANIES) + r.choice([" Ltd.", " Inc.", " GmbH", ""]),
            "price": lambda: r.choice([f"${r.randint(1, 999)}.{self.digits(2)}", f"{r.randint(1, 99)} euros"]),
            "number": lambda: self.digits(r.randint(3, 8)), "count": lambda: str(r.randint(1, 99)),
            "time": lambda: f"{r.randint(0, 23)}:{r.randint(0, 59):02}", "year": lambda: str(r.randint(1930, 2029)),
            "version": lambda: f"{r.randint(0, 9)}.{r.randint(0, 20)}.{r.randint(0, 9)}",
            "code": lambda: "".join(r.choice("ABCDEFGH0123456789") for _ in range(6)),
        }[what]()

    def sentence(self):
        """(text, spans): a filled template."""
        template = self.r.choice(HELD_OUT if self.side else TRAINING)
        text, spans = "", []
        for i, part in enumerate(template.replace("}", "{").split("{")):
            if i % 2 == 0:
                text += part
                continue
            start = len(text)
            text += self.fill(part)
            if f"private_{part}" in CLASSES:
                spans.append({"start": start, "end": len(text), "label": f"private_{part}"})
        return text, spans

    def document(self, least):
        """Sentences of at least so many bytes in all. Bytes are characters: everything is ASCII."""
        text, spans = "", []
        while len(text) < least:
            sentence, found = self.sentence()
            spans += [{**s, "start": s["start"] + len(text), "end": s["end"] + len(text)} for s in found]
            text += sentence + self.r.choice([" ", " ", "\n"])
        return text, spans


def label_ids(length, spans):
    ids = np.zeros(length, np.int64)
    for s in spans:
        first = 1 + 4 * CLASSES.index(s["label"])
        ids[s["start"]:s["end"]] = first + 1
        ids[s["start"]], ids[s["end"] - 1] = first, first + 2
        if s["end"] - s["start"] == 1:
            ids[s["start"]] = first + 3
    return ids


def batch_of(words, size):
    """Bytes and labels of random cuts from longer texts; spans that a cut goes through do not count."""
    xs, ys = [], []
    for _ in range(size):
        text, spans = words.document(SEQ + 120)
        cut = words.r.randint(0, len(text) - SEQ)
        labels = label_ids(len(text), spans)
        for s in spans:
            if s["start"] < cut < s["end"] or s["start"] < cut + SEQ < s["end"]:
                labels[s["start"]:s["end"]] = IGNORED
        xs.append(np.frombuffer(text[cut:cut + SEQ].encode(), np.uint8).astype(np.int64))
        ys.append(labels[cut:cut + SEQ])
    return torch.from_numpy(np.stack(xs)), torch.from_numpy(np.stack(ys))


# -------------------------------------------------------------- spans ----

def legal(before, after):
    """Whether a tag may follow another; None stands for the text's ends."""
    inside = before is not None and before[0] in "BI"
    if after is None:
        return not inside
    if inside:
        return after[0] in "IE" and after[2:] == before[2:]
    return after[0] in "OBS"


def best_labels(log_probabilities):
    """The ids of the legal sequence with the largest sum."""
    scores = log_probabilities.double().numpy()
    steps = np.array([[0.0 if legal(a, b) else -np.inf for b in LABELS] for a in LABELS])
    total = scores[0] + [0.0 if legal(None, b) else -np.inf for b in LABELS]
    back = []
    for row in scores[1:]:
        ways = total[:, None] + steps
        back.append(ways.argmax(0))
        total = ways.max(0) + row
    total = total + [0.0 if legal(a, None) else -np.inf for a in LABELS]
    ids = [int(total.argmax())]
    for way in reversed(back):
        ids.append(int(way[ids[-1]]))
    return ids[::-1]


def spans_of(ids):
    spans, start = [], 0
    for i, label in enumerate(LABELS[j] for j in ids):
        if label[0] in "BS":
            start = i
        if label[0] in "ES":
            spans.append({"start": start, "end": i + 1, "label": label[2:]})
    return spans


@torch.no_grad()
def find_spans(model, text):
    logits = model(torch.tensor([list(text.encode())])).logits[0]
    return spans_of(best_labels(logits.log_softmax(-1)))


def f1_of(pairs):
    """Over (true, found) lists of spans; a span counts where both ends and the label are right."""
    key = lambda s: (s["start"], s["end"], s["label"])
    right = sum(len({key(s) for s in true} & {key(s) for s in found}) for true, found in pairs)
    true, found = (sum(len(pair[i]) for pair in pairs) for i in (0, 1))
    return {"spans": true, "found": found, "right": right, "f1": round(2 * right / max(true + found, 1), 4)}


# -------------------------------------------------------------- model ----

def make_config():
    return OpenAIPrivacyFilterConfig(
        hidden_size=64, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, vocab_size=256,
        max_position_embeddings=4096, bos_token_id=None, eos_token_id=None, pad_token_id=None,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 1024},
        id2label=dict(enumerate(LABELS)), label2id={name: i for i, name in enumerate(LABELS)},
        attn_implementation="eager")


def stored(name, tensor):
    """As the release stores it: all but the sinks in bf16."""
    return tensor if name.endswith("sinks") else tensor.to(torch.bfloat16)


def balance_loss(logits, k):
    """E · Σ share of the choices · mean probability, 1 for an even router."""
    chosen = F.one_hot(logits.topk(k, dim=-1).indices, logits.shape[-1]).float().sum(1)
    return logits.shape[-1] * (chosen.mean(0) / k * logits.softmax(-1).mean(0)).sum()


def card(m):
    h, c = m["held_out"], m["config"]
    return "\n".join([
        "# tinytagger", "",
        "A tiny Privacy Filter (`openai_privacy_filter`) whose tokens are bytes, trained on made-up texts so that tests",
        "and demos have spans to find. Written by `scripts/train_tinytagger.py`; every number was measured by that",
        "script on the weights after rounding to bf16. It is a test fixture: do not trust it with private data.", "",
        f"- Parameters: {m['parameters']:,}; {c['num_hidden_layers']} layers, hidden {c['hidden_size']}, "
        f"{c['num_attention_heads']}/{c['num_key_value_heads']} heads of {c['head_dim']}, {c['num_local_experts']} experts "
        f"of width {c['intermediate_size']}, top-{c['num_experts_per_tok']}, a band of ±{c['sliding_window']} bytes, "
        f"{len(LABELS)} labels.",
        f"- Labels: O and B, I, E, S of {', '.join(CLASSES)}.",
        f"- Training: {m['steps']:,} steps of {m['batch']} texts of {SEQ} bytes, {m['train_minutes']} minutes of "
        f"one CPU core, AdamW, cosine learning rate from {m['lr']}.",
        f"- Versions: torch {m['versions']['torch']}, transformers {m['versions']['transformers']}, Python "
        f"{m['versions']['python']}.",
        f"- Command: `{m['command']}`", "",
        "The held-out texts have templates and words that are not in the training texts: "
        f"{h['spans']} spans, {h['found']} found, {h['right']} right in label and both ends, F1 {h['f1']}.",
        f"In training texts that were not seen: F1 {m['seen_templates']['f1']} of {m['seen_templates']['spans']} spans.", "",
        f"`heldout.json` has the first {KEPT} of these texts with their true spans (`spans`) and those that PyTorch finds",
        f"(`found`), in bytes: {m['heldout_json']['spans']} spans, F1 {m['heldout_json']['f1']}.", ""])


def export(model, folder, facts):
    rounded = OpenAIPrivacyFilterForTokenClassification(make_config())
    tensors = {name: stored(name, t.detach().clone()).contiguous() for name, t in model.state_dict().items()}
    rounded.load_state_dict({name: t.float() for name, t in tensors.items()})
    rounded.eval()

    def measure(side, seed, count, least):
        words = Words(side, seed)
        documents = [words.document(least) for _ in range(count)]
        return documents, [(spans, find_spans(rounded, text)) for text, spans in documents]

    documents, held = measure(1, 71, 100, 500)
    _, seen = measure(0, 72, 50, 500)
    metrics = {**facts, "held_out": f1_of(held), "seen_templates": f1_of(seen), "heldout_json": f1_of(held[:KEPT])}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".tinytagger-") as tmp:
        tmp = Path(tmp)
        rounded.config.architectures, rounded.config.dtype = [type(rounded).__name__], torch.bfloat16
        rounded.config.save_pretrained(tmp)
        save_file(tensors, tmp / "model.safetensors", metadata={"format": "pt"})
        write_tokenizer(tmp)
        metrics["weights_sha256"] = hashlib.sha256((tmp / "model.safetensors").read_bytes()).hexdigest()
        (tmp / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
        (tmp / "README.md").write_text(card(metrics), encoding="utf-8")
        texts = [{"text": text, "spans": true, "found": found} for (text, _), (true, found) in zip(documents[:KEPT], held)]
        (tmp / "heldout.json").write_text(json.dumps({"texts": texts}, indent=1) + "\n")
        for path in sorted(tmp.iterdir()):
            os.chmod(path, 0o644)
            os.replace(path, folder / path.name)
    return metrics


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, default=REPO / "models" / "tinytagger")
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    words = Words(0, args.seed)
    config = make_config()
    model = OpenAIPrivacyFilterForTokenClassification(config)
    routers = []
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.mlp.router.weight, std=0.3)
        layer.mlp.router.register_forward_hook(lambda _module, _args, out: routers.append(out[0]))
        torch.nn.init.normal_(layer.mlp.experts.gate_up_proj, std=config.hidden_size ** -0.5)
        torch.nn.init.normal_(layer.mlp.experts.down_proj, std=0.5 * config.intermediate_size ** -0.5)
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=0.5)
    total = sum(p.numel() for p in model.parameters())
    print(f"{total:,} parameters", flush=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)
    start, running = time.process_time(), 0.0
    model.train()
    for step in range(args.steps):
        rate = args.lr * min(1.0, (step + 1) / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        for group in opt.param_groups:
            group["lr"] = rate
        x, y = batch_of(words, args.batch)
        routers.clear()
        loss = F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), ignore_index=IGNORED)
        balance = sum(balance_loss(r, config.num_experts_per_tok) for r in routers) / len(routers)
        opt.zero_grad(set_to_none=True)
        (loss + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        running += loss.item() / 100
        if (step + 1) % 100 == 0:
            print(f"step {step + 1} {(time.process_time() - start) / 60:.1f} min  loss {running:.4f}  balance "
                  f"{balance.item():.3f}", flush=True)
            running = 0.0
    facts = {
        "steps": args.steps, "batch": args.batch, "lr": args.lr, "parameters": total,
        "train_minutes": round((time.process_time() - start) / 60, 1),
        "command": " ".join(["scripts/train_tinytagger.py", *sys.argv[1:]]),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                     "python": platform.python_version()},
        "config": {key: getattr(config, key) for key in (
            "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
            "num_local_experts", "intermediate_size", "num_experts_per_tok", "sliding_window")},
    }
    metrics = export(model, args.out, facts)
    print(json.dumps({key: metrics[key] for key in ("held_out", "seen_templates", "heldout_json")}), flush=True)
    if min(metrics["held_out"]["f1"], metrics["heldout_json"]["f1"]) < 0.95:
        sys.exit("the run failed: span F1 below 0.95 on held-out texts")


if __name__ == "__main__":
    main()
