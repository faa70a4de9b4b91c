"""A progress bar on stderr for jobs of several passes, as a reference that reads its weights anew in every one."""

import sys
import time

WIDTH = 30


class Progress:
    """Counts the parts of each pass; `unit` is the word for them. On a terminal it redraws one line, elsewhere it writes
    a line for each finished pass."""

    def __init__(self, parts, stream=None, unit="parts"):
        self.parts, self.stream, self.unit = parts, stream or sys.stderr, unit
        self.began, self.done, self.label = time.monotonic(), 0, ""

    def begin(self, label, done=0):
        """The next pass; `label` says which one it is, `done` how many of its parts are over already."""
        self.label, self.done = label, done
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
        return f"{self.label:<24} [{bar}] {self.done:3} of {self.parts} {self.unit} {seconds:6.0f} s"

    def draw(self):
        if self.stream.isatty():
            self.stream.write("\r" + self.line())
            self.stream.flush()
