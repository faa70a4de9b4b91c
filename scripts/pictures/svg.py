"""Writes small SVG files reproducibly: the same calls produce the same bytes.

Coordinates and sizes are in pixels, with y growing downwards. Every picture has a background, so that it looks the same on
light and dark pages.
"""

from xml.sax.saxutils import escape

SANS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
INK, FAINT, LINE, PAPER = "#1f2933", "#52606d", "#7b8794", "#fbfcfd"
# Fill and border colors of boxes.
BLUE, ORANGE, GREEN = ("#dbeafe", "#2f6fbf"), ("#ffe8cc", "#c26a10"), ("#d9f2e3", "#2b8a57")
PURPLE, GREY, RED = ("#ebe2fb", "#7048b6"), ("#eef1f4", "#8795a1"), ("#fde2e2", "#c0392b")


def number(value):
    """Formats a number with at most one decimal, without a zero decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


class Picture:
    """Collects elements; str() returns the file."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.elements = []

    def box(self, x, y, width, height, colors, radius=5):
        fill, stroke = colors
        self.elements.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
            f'rx="{number(radius)}" fill="{fill}" stroke="{stroke}"/>')  # fmt: skip

    def text(self, x, y, words, size=12, color=INK, anchor="middle", mono=False, bold=False):
        """Adds one line of text; y is its baseline."""
        more = (f' font-family="{MONO}"' if mono else "") + (' font-weight="bold"' if bold else "")
        self.elements.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{color}" '
            f'text-anchor="{anchor}"{more}>{escape(words)}</text>')  # fmt: skip

    def path(self, points, color=LINE, width=1.2, arrow=True, dashed=False):
        """Adds a line through the points; curved segments begin and end vertically."""
        (x, y), rest = points[0], points[1:]
        words = [f"M{number(x)} {number(y)}"]
        for to_x, to_y in rest:
            if abs(to_x - x) < 0.5 or abs(to_y - y) < 0.5:
                words.append(f"L{number(to_x)} {number(to_y)}")
            else:
                middle = number((y + to_y) / 2)
                words.append(f"C{number(x)} {middle} {number(to_x)} {middle} {number(to_x)} {number(to_y)}")
            x, y = to_x, to_y
        more = (' marker-end="url(#head)"' if arrow else "") + (
            ' stroke-dasharray="5 4"' if dashed else "")  # fmt: skip
        self.elements.append(
            f'<path d="{" ".join(words)}" fill="none" stroke="{color}" stroke-width="{width}"{more}/>')

    def bar(self, x, y, height, parts, step, colors):
        """Adds a bar of `parts` equal segments, each `step` wide."""
        self.box(x, y, parts * step, height, colors, 1)
        ticks = "".join(f"M{number(x + step * part)} {number(y)}v{number(height)}" for part in range(1, parts))
        self.elements.append(f'<path d="{ticks}" stroke="{colors[1]}" stroke-width="0.6" fill="none"/>')

    def __str__(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'width="{number(self.width)}" height="{number(self.height)}" font-family="{SANS}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0.8L8 4L0 7.2z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n')  # fmt: skip
        return head + "\n".join(self.elements) + "\n</svg>\n"
