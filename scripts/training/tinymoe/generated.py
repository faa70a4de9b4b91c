"""Generates text for tinymoe: sums and JSON records. The same seed produces the same text."""

import json

NAMES = "ada alan barbara claude donald edsger frances grace john ken leslie margaret niklaus radia".split()
CITIES = "Bergen Cairo Delft Kyoto Lagos Lima Lyon Oslo Perth Quito Riga Tunis".split()
WORDS = "alpha beta cold dark east fast green heavy iron light north old paper quiet river stone".split()


def lines_of(make_line, rng, size):
    """Lines with at least `size` bytes in total. All text is ASCII, so bytes are characters."""
    out, total = [], 0
    while total < size:
        out.append(make_line(rng) + "\n")
        total += len(out[-1])
    return "".join(out).encode()


def sum_line(rng):
    op = rng.choice("++--**//%<")
    a, b = rng.randrange(10 ** rng.randint(1, 4)), rng.randrange(1, 10 ** rng.randint(1, 3))
    if op == "+":
        return f"{a} + {b} = {a + b}"
    if op == "-":
        return f"{a} - {b} = {a - b}"
    if op == "*":
        a, b = a % 100, b % 13
        return f"{a} * {b} = {a * b}"
    if op == "/":
        return f"{a} / {b} = {a // b} rem {a % b}"
    if op == "%":
        a, b, c = a % 100, b % 100, rng.randrange(100)
        return f"({a} + {b}) + {c} = {a + b} + {c} = {a + b + c}"
    return f"{a} {'<' if a < b else '>' if a > b else '='} {b}"


def arithmetic(rng, size):
    return lines_of(sum_line, rng, size)


def user(rng):
    name = rng.choice(NAMES)
    return {"id": rng.randrange(100000), "name": name, "email": f"{name}@example.org",
            "city": rng.choice(CITIES), "age": rng.randint(18, 90), "active": rng.random() < 0.5}


def order(rng):
    qty, price = rng.randint(1, 9), rng.randint(1, 50)
    return {"order": rng.randrange(100000), "items": [
        {"sku": f"{rng.choice(WORDS)}-{rng.randrange(100)}", "qty": qty, "price": price, "sum": qty * price}
        for _ in range(rng.randint(1, 3))], "paid": rng.random() < 0.7}


def event(rng):
    return {"event": rng.choice(["start", "stop", "error", "retry"]),
            "time": f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
                    f"T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00Z",
            "host": f"{rng.choice(WORDS)}{rng.randrange(10)}", "level": rng.randrange(4), "detail": None}


def place(rng):
    return {"point": {"x": rng.randint(-99, 99), "y": rng.randint(-99, 99)},
            "tags": sorted(rng.sample(WORDS, rng.randint(1, 4))), "ok": True}


def record_line(rng):
    record = (user, order, event, place)[rng.randrange(4)](rng)
    return json.dumps(record, indent=2 if rng.random() < 0.2 else None)


def json_records(rng, size):
    return lines_of(record_line, rng, size)
