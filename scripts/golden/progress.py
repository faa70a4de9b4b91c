"""A progress bar on stderr for a reference that reads its weights anew in every pass."""

import sys
import time

WIDTH = 30


class Progress:
    """Counts the parts of each pass. On a terminal it redraws one line, elsewhere it writes a line for each finished
    pass."""

    def __init__(self, parts, stream=None):
        self.parts, self.stream = parts, stream or sys.stderr
        self.began, self.done, self.label = time.monotonic(), 0, ""

    def begin(self, label):
        """The next pass; `label` says which one it is."""
        self.label, self.done = label, 0
        self.draw()

    def step(self):
        self.done += 1
        self.draw()

    def end(self):
        """The pass is over."""
        self.stream.write(f"\r{self.line()}\n" if self.stream.isatty() else f"{self.line()}\n")
        self.stream.flush()

    def line(self):
        filled = WIDTH * min(self.done, self.parts) // self.parts
        seconds = time.monotonic() - self.began
        bar = "#" * filled + "." * (WIDTH - filled)
        return f"{self.label:<24} [{bar}] {self.done:3} of {self.parts} parts {seconds:6.0f} s"

    def draw(self):
        if self.stream.isatty():
            self.stream.write("\r" + self.line())
            self.stream.flush()
