"""Runs the compiler on a pseudo-terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from conftest import find_binary

CLEAR = b"\r\x1b[K"  # begins each line of progress, and clears the last one


def read_all(descriptor):
    """Everything until the other side is closed, which Linux reports as EIO."""
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 1 << 16)
        except OSError:
            piece = b""
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def on_terminal(words, columns=80, both=False, environment=None):
    """Runs moec with stderr on a terminal, with `both` stdout, too. Returns (exit code, bytes of the terminal)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [str(find_binary()), *map(str, words)]
    run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave if both else subprocess.DEVNULL,
                           stderr=slave, env={**os.environ, **(environment or {})})
    os.close(slave)
    shown = read_all(master)
    os.close(master)
    return run.wait(), shown
