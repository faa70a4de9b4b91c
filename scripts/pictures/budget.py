"""Draws how a budget cuts the experts of a layer into shards, from `moec plan --json`."""

from pictures import svg

MODEL, TARGET, BUDGETS = "qwen3-30b-a3b", "ane", [100, 200, 400]  # MB
MARGIN, PANEL, GAP = 28, 270, 38
LAYER_Y, PANELS_Y, BAR, PITCH = 88, 196, 15, 21


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def command(budget):
    """Arguments of `moec` for one panel."""
    return ["plan", MODEL, "--target", TARGET, "--max-shard-mb", f"moe={budget}"]


def row_of(plan, kind):
    return next(row for row in plan["shards"] if row["kind"] == kind)


def draw_layer(picture, plan, width):
    """Draws one layer to scale: attention, router, all experts."""
    experts, each = sum(plan["expert_groups"]), plan["expert_bytes"]
    attention, router = (row_of(plan, kind)["largest_bytes"] for kind in ("attention", "router"))
    scale = (width - 12) / (attention + router + experts * each)
    picture.box(MARGIN, LAYER_Y, attention * scale, 22, svg.GREEN, 1)
    left = MARGIN + attention * scale + 6
    picture.box(left, LAYER_Y, 1, 22, svg.ORANGE, 0)
    picture.bar(left + 7, LAYER_Y, 22, experts, each * scale, svg.BLUE)
    picture.text(MARGIN, LAYER_Y + 40, f"attention {megabytes(attention)}, router {megabytes(router)}, "
                 f"{experts} experts of {megabytes(each)}: {experts * each / 1e9:.2f} GB", 12, svg.FAINT, "start")


def draw_groups(picture, plan, budget, left):
    """Draws one panel: a bar per group of experts, and the budget as a line."""
    groups, each = plan["expert_groups"], plan["expert_bytes"]
    scale = PANEL / (max(BUDGETS) * 1e6)
    limit = left + budget * 1e6 * scale
    picture.text(left, PANELS_Y - 28, f"--max-shard-mb moe={budget}", 12.5, anchor="start", mono=True, bold=True)
    largest = megabytes(row_of(plan, "experts")["largest_bytes"])
    picture.text(left, PANELS_Y - 11, f"{len(groups)} groups, the largest {largest}", 12, svg.FAINT, "start")
    for index, experts in enumerate(groups):
        y = PANELS_Y + PITCH * index
        picture.bar(left, y, BAR, experts, each * scale, svg.BLUE)
        picture.text(limit + 8, y + 12, f"g{index}: {experts}", 11, svg.FAINT, "start", mono=True)
    bottom = PANELS_Y + PITCH * len(groups)
    picture.path([(limit, PANELS_Y - 6), (limit, bottom)], svg.RED[1], 1.6, arrow=False, dashed=True)


def draw(plan_of):
    """Draws the picture. `plan_of` runs moec with the arguments of command() and returns the plan."""
    plans = [plan_of(command(budget)) for budget in BUDGETS]
    rows = max(len(plan["expert_groups"]) for plan in plans)
    lefts = [MARGIN]
    for budget in BUDGETS[:-1]:
        lefts.append(lefts[-1] + max(PANEL * budget / max(BUDGETS) + 80, 200) + GAP)
    width = lefts[-1] + PANEL + 80 + MARGIN
    picture = svg.Picture(width, PANELS_Y + PITCH * rows + 20, "How a budget cuts a layer")
    picture.text(MARGIN, 34, f"How a budget cuts one layer of {MODEL}", 16, anchor="start", bold=True)
    picture.text(MARGIN, 55, "Each small box is one expert, counted as f16. The red line is the budget of a "
                 "shard; group sizes differ by at most one expert.", 12, svg.FAINT, "start")  # fmt: skip
    draw_layer(picture, plans[0], width - 2 * MARGIN)
    for plan, budget, left in zip(plans, BUDGETS, lefts):
        draw_groups(picture, plan, budget, left)
    return picture
