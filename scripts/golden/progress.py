"""A progress bar on stderr for jobs with several passes, such as a reference that reads its weights in every pass."""

import sys
import time

WIDTH = 30


class Progress:
    """Counts the parts of each pass, which `unit` names. Redraws one line on a terminal; elsewhere writes one line per
    finished pass."""

    def __init__(self, parts, stream=None, unit="parts"):
        self.parts, self.stream, self.unit = parts, stream or sys.stderr, unit
        self.began, self.done, self.label = time.monotonic(), 0, ""

    def begin(self, label, done=0):
        """Begins the next pass. `label` names it; `done` is the number of parts that are already finished."""
        self.label, self.done = label, done
        self.draw()

    def step(self):
        self.done += 1
        self.draw()

    def end(self):
        """Ends the pass."""
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
