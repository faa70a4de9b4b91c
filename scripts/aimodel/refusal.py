"""The exception of this folder: a rejected export, with a stable code and a next step."""


class Refused(ValueError):
    def __init__(self, code, message, next_step):
        super().__init__(f"error[coreai.{code}]: {message}\n  next: {next_step}")


def require(good, code, message, next_step):
    if not good:
        raise Refused(code, message, next_step)
