"""Exit codes and final messages of training commands."""

import sys
from pathlib import Path

from golden.request import Refused


def exit_code(run):
    """Returns the result of `run`; 2 if it rejects its arguments, 1 if numbers overflow, 130 if it is interrupted."""
    name = Path(sys.argv[0]).name
    try:
        return run()
    except Refused as refusal:
        print(f"{name}: {refusal}", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"{name}: {error}: use a smaller learning rate", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: the training was stopped: run the same command with --resume to continue", file=sys.stderr)
        return 130
