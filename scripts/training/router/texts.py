"""The token data of a training of routers: texts of three generators, or the files of a folder."""

import random

import numpy as np

from golden.request import Refused
from training.tinymoe.generated import arithmetic, json_records, lines_of
from training.tinymoe.texts import windows
from training.tinytagger.sentences import Words

TRAINING_BYTES, HELD_BYTES = 2_000_000, 200_000  # of each generator
HELD_PART = 10  # of a file of the user's: its last tenth is held out
MEASURED = 11   # seeds the held-out windows, which are the same in every measurement


def sentences(rng, size):
    """Made-up sentences with names, dates and addresses."""
    words = Words(0, rng.randrange(1 << 32))
    return lines_of(lambda _rng: words.document(500)[0], rng, size)


def generated():
    """{domain: (training, held out)} as bytes. Held-out texts have seeds of their own."""
    sides = (1, TRAINING_BYTES), (2, HELD_BYTES)
    return {make.__name__: tuple(make(random.Random(seed), size) for seed, size in sides)
            for make in (arithmetic, json_records, sentences)}


def files_of(folder):
    """{"text": (training, held out)} as bytes: all but the last tenth of each file, and these last tenths."""
    if not folder.is_dir():
        raise Refused(f"--text {folder} is not a folder")
    sides = [], []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Refused(f"{path} is not UTF-8 text (byte {error.start}); take it out of the folder") from None
        cut = len(raw) - len(raw) // HELD_PART
        while cut < len(raw) and raw[cut] & 0xC0 == 0x80:  # not inside a character
            cut += 1
        for side, part in zip(sides, (raw[:cut], raw[cut:])):
            side.append(part)
    return {"text": tuple(b"\n\n".join(side) for side in sides)}


class Texts:
    """Tokens of each domain, for training and held out. `encode` makes a list of token ids of bytes."""

    def __init__(self, domains, encode, length):
        self.length = length
        self.train, self.held = ({d: np.asarray(encode(sides[i]), np.int64) for d, sides in domains.items()}
                                 for i in (0, 1))
        for side, what in ((self.train, "train on"), (self.held, "measure on")):
            for domain, tokens in side.items():
                if len(tokens) < 2 * length + 2:
                    raise Refused(f"{domain}: {len(tokens)} tokens to {what} are less than two windows of {length}; "
                                  "give more text or a smaller --length")

    def batch(self, count, rng):
        """[count, length + 1] tokens to train on, each window of a domain at random."""
        counts = rng.multinomial(count, [1 / len(self.train)] * len(self.train))
        parts = [windows(tokens, n, rng, self.length) for tokens, n in zip(self.train.values(), counts) if n]
        return np.concatenate(parts)

    def held_batches(self, domain, batches, count):
        """The same held-out batches every time."""
        rng = np.random.default_rng(MEASURED)
        for _ in range(batches):
            yield windows(self.held[domain], count, rng, self.length)
