"""Refuses to go on where Python would import somebody else's `converter` or `weights`.

For `python -m` Python looks for modules in the current folder first, for a script in the script's:
a `converter.py` there is found before ours. The face of this package imports this module before
anything else, and this module imports nothing of ours.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2]
"""The folder in which this package was installed, with the two others of the same distribution."""

PROGRAMS = ("-m", "zoo")
"""What `sys.argv[0]` is called while Python looks for the module of `-m`, and in our command."""


def _in_the_way() -> str | None:
    """A sentence about the first file that would be imported instead of ours."""
    for name in ("converter", "weights"):
        spec = find_spec(name)
        origin = spec and spec.origin
        if origin and Path(origin).resolve().parents[1] != BESIDE:
            return (
                f"{ascii(origin)[1:-1]} is in the way: Python imports it instead of the package "
                f"{name!r} that zoo needs. Rename it, or run the command `zoo`, which does not "
                "look into the current folder."
            )
    return None


if _sentence := _in_the_way():
    if Path(sys.argv[0] if sys.argv else "").stem in PROGRAMS:
        sys.stderr.write(f"error: {_sentence}\n")
        sys.exit(2)
    raise ImportError(_sentence)
