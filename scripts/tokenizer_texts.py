"""Test texts for tokenizers: code and prose, every block of Unicode, damaged UTF-8, long runs, special tokens."""

import random
import subprocess
import unicodedata
from pathlib import Path

from tokenizers import normalizers

REPO = Path(__file__).resolve().parent.parent
SPACES = " \t\n\r\v\f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000\u180e\u200b\ufeff"
FORMS = {"NFD": normalizers.NFD(), "NFKC": normalizers.NFKC()}
MARKS = [chr(code) for code in range(0x300, 0x370)]
WORDS = ["don't", "I'LL", "we've", "it's", "ſ", "İstanbul", "ﬁne", "①②", "12345678901234567890", "3.14159", "x_1", "ΑΣ",
         "e\u0301", "가각", "\u1100\u1161\u11a8", "नमस्ते", "สวัสดี", "مرحبا", "日本語", "中文字符", "👩‍👩‍👧‍👦", "🇩🇪", "a\u200db",
         "\u0000", "\ufffd", "<0x41>", "▁", "Ġ", "##ing", "</w>", "<|", "|>", "[INST]", "<s>", "\u2581\u2581"]


def is_known(character):
    """True if Unicode 14 has assigned the character and the older tables of tokenizers normalize it equally."""
    if unicodedata.category(character) in ("Cs", "Cn"):
        return False
    # Normalization may reorder the character relative to these marks of other combining classes.
    text = "a\u0345" + character + "\u0327"
    return all(form.normalize_str(text) == unicodedata.normalize(name, text) for name, form in FORMS.items())


def characters_by_block():
    """Lists of assigned code points, one per block of 256."""
    blocks = []
    for first in range(0, 0x110000, 0x100):
        if 0x30000 <= first < 0xE0000 or first >= 0xF0000:
            continue  # unassigned or private use
        block = [chr(code) for code in range(first, first + 0x100) if is_known(chr(code))]
        if block:
            blocks.append(block)
    return blocks


def lines_of_tree():
    """Lines of this project's text files."""
    names = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.md", "*.py", "*.json"], cwd=REPO, check=True,
                           capture_output=True, text=True).stdout.split()
    return [line for name in names[::7] for line in (REPO / name).read_text(encoding="utf-8").splitlines() if line]


class Texts:
    def __init__(self, seed, special):
        self.chance = random.Random(seed)
        self.blocks = characters_by_block()
        self.lines = lines_of_tree()
        self.special = special or ["<|endoftext|>"]

    def code(self):
        return "\n".join(self.chance.choices(self.lines, k=self.chance.randint(1, 4)))

    def characters(self):
        block = self.chance.choice(self.blocks)
        return "".join(self.chance.choices(block, k=self.chance.randint(1, 24)))

    def mixed(self):
        makers = [lambda: self.chance.choice(SPACES) * self.chance.randint(1, 3), self.word, self.characters,
                  lambda: self.chance.choice(MARKS), lambda: chr(self.chance.randint(33, 126))]
        return "".join(self.chance.choice(makers)() for _ in range(self.chance.randint(1, 16)))

    def word(self):
        return self.chance.choice(WORDS) if self.chance.random() < 0.4 else self.chance.choice(self.lines)[:20]

    def random_bytes(self):
        return self.chance.randbytes(self.chance.randint(1, 40)).decode("utf-8", "replace")

    def run(self):
        part = self.chance.choice([" ", "\n", "a", "=", "ab", "é", "字", "1", " \n", "\t", "▁", "-"])
        return part * self.chance.randint(1, 300)

    def tokens(self):
        return "".join(self.chance.choice([self.chance.choice(self.special), self.word(), " ", "\n"])
                       for _ in range(self.chance.randint(1, 8)))

    def next(self):
        makers = (self.code, self.characters, self.mixed, self.mixed, self.random_bytes, self.run, self.tokens)
        return self.chance.choice(makers)()


def make_texts(count, seed=1, special=()):
    """`count` texts, determined by the seed; some of them contain texts of `special` tokens."""
    texts = Texts(seed, list(special))
    return ["", *(texts.next() for _ in range(count - 1))]
