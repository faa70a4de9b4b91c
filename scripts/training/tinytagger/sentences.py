"""Generates tinytagger's training texts: filled templates with their spans."""

import random

from training.tinytagger.words import COMPANIES, ENDINGS, FIRST, HELD_OUT, HOSTS, LAST, MONTHS, STREET_KINDS, STREETS
from training.tinytagger.words import THINGS, TOWNS, TRAINING

CLASSES = ["private_address", "private_date", "private_email", "private_person", "private_phone"]


class Words:
    """Generates the contents for one side of the split: 0 for training, 1 for held-out texts."""

    def __init__(self, side, seed):
        self.side, self.r = side, random.Random(seed)

    def of(self, lists):
        return self.r.choice(lists[self.side])

    def digits(self, n):
        return "".join(self.r.choice("0123456789") for _ in range(n))

    def made_up(self):
        """A name made of syllables, so that the model learns the positions of names instead of a list."""
        syllables = [self.r.choice("b c d f g h j k l m n p r s t v w z br st tr".split())
                     + self.r.choice("a e i o u ai ea".split()) for _ in range(self.r.randint(1, 3))]
        return ("".join(syllables) + self.r.choice(["", "n", "r", "s", "l", "m"])).capitalize()

    def name(self, lists):
        return self.made_up() if self.side == 0 and self.r.random() < 0.35 else self.of(lists)

    def person(self):
        """A person's name of at least two words, because a single word could also be a town."""
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
        """Fills a template; returns (text, spans)."""
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
        """Sentences with at least `least` bytes in total. All text is ASCII, so bytes are characters."""
        text, spans = "", []
        while len(text) < least:
            sentence, found = self.sentence()
            spans += [{**s, "start": s["start"] + len(text), "end": s["end"] + len(text)} for s in found]
            text += sentence + self.r.choice([" ", " ", "\n"])
        return text, spans
