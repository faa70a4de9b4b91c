"""Token data of a router training: texts of three generators, or the files of a folder."""

import random

import numpy as np

from golden.request import Refused
from training.tinymoe.generated import arithmetic, json_records, lines_of
from training.tinymoe.texts import windows
from training.tinytagger.sentences import Words

TRAINING_BYTES, HELD_BYTES = 2_000_000, 200_000  # per generator
HELD_PART = 10  # the last tenth of each user's file is held out
MEASURED = 11   # seed of the held-out windows, which are the same in every measurement


def sentences(rng, size):
    """Made-up sentences with names, dates and addresses."""
    words = Words(0, rng.randrange(1 << 32))
    return lines_of(lambda _rng: words.document(500)[0], rng, size)


def generated():
    """Returns {domain: (training, held out)} as bytes. Held-out texts have different seeds."""
    sides = (1, TRAINING_BYTES), (2, HELD_BYTES)
    return {make.__name__: tuple(make(random.Random(seed), size) for seed, size in sides)
            for make in (arithmetic, json_records, sentences)}


def files_of(folder):
    """Returns {"text": (training, held out)} as bytes: training is all but the last tenth of each file, held out the
    last tenths."""
    if not folder.is_dir():
        raise Refused(f"--text {folder} is not a folder: pass a folder of texts")
    sides = [], []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Refused(f"{path} is not UTF-8 text (byte {error.start}): remove it from the folder") from None
        cut = len(raw) - len(raw) // HELD_PART
        while cut < len(raw) and raw[cut] & 0xC0 == 0x80:  # moves to a character boundary
            cut += 1
        for side, part in zip(sides, (raw[:cut], raw[cut:])):
            side.append(part)
    return {"text": tuple(b"\n\n".join(side) for side in sides)}


class Texts:
    """Tokens of each domain, for training and held out. `encode` converts bytes to a list of token ids."""

    def __init__(self, domains, encode, length):
        self.length = length
        self.train, self.held = ({d: np.asarray(encode(sides[i]), np.int64) for d, sides in domains.items()}
                                 for i in (0, 1))
        for side, what in ((self.train, "train on"), (self.held, "measure on")):
            for domain, tokens in side.items():
                if len(tokens) < 2 * length + 2:
                    raise Refused(f"{domain}: {len(tokens)} tokens to {what} are fewer than two windows of {length}: "
                                  "pass more text or a smaller --length")

    def batch(self, count, rng):
        """Returns training tokens [count, length + 1]; each window is from a random domain."""
        counts = rng.multinomial(count, [1 / len(self.train)] * len(self.train))
        parts = [windows(tokens, n, rng, self.length) for tokens, n in zip(self.train.values(), counts) if n]
        return np.concatenate(parts)

    def held_batches(self, domain, batches, count):
        """Held-out batches, the same in every call."""
        rng = np.random.default_rng(MEASURED)
        for _ in range(batches):
            yield windows(self.held[domain], count, rng, self.length)
