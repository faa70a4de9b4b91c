"""The end of a command that trains: its exit code, and what it says where it stops early."""

import sys
from pathlib import Path

from golden.request import Refused


def exit_code(run):
    """What `run` returns; 2 where it refuses its arguments, 1 where numbers overflow, 130 where it was interrupted."""
    name = Path(sys.argv[0]).name
    try:
        return run()
    except Refused as refusal:
        print(f"{name}: {refusal}", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"{name}: {error}; use a smaller rate", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command with --resume goes on", file=sys.stderr)
        return 130
