"""Results as a person reads them: the parts that commands print."""


def counted(number: int, noun: str) -> str:
    """A number of things, in the singular where it is one."""
    return f"{number} {noun}{'s' * (number != 1)}"
