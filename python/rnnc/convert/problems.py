"""What keeps a model from being converted."""


class ConvertError(ValueError):
    """A model that cannot be converted. `problems` has a line for each reason, with its node."""

    def __init__(self, problems):
        self.problems = [printable(problem) for problem in problems]
        super().__init__("\n".join(self.problems))


class Unsupported(Exception):
    """Why one node cannot be expressed."""


def printable(text, most=400):
    """What a file brought, fit for a terminal."""
    text = "".join(c if c.isprintable() else "?" for c in str(text))
    return text if len(text) <= most else text[:most] + "…"
