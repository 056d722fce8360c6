"""Raise an error if Python would import another module named `converter` or `weights`.

With `python -m`, Python looks for modules in the current folder first, and with a script in the
folder of the script. A file `converter.py` there would be imported in place of this package.
`zoo/__init__.py` imports this module first, and this module imports nothing from the packages.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES_FOLDER = Path(__file__).resolve().parents[2]
"""The folder in which the packages of this distribution are installed."""

PROGRAMS = ("-m", "zoo")
"""Stems of `sys.argv[0]` in a command-line program: `-m` while Python looks for the module, or
`zoo`."""


def _shadowing_message() -> str | None:
    """Return an error message if Python would import `converter` or `weights` from elsewhere.

    Return None if each of them is in the folder in which `zoo` is installed, or is not found.
    """
    for name in ("converter", "weights"):
        spec = find_spec(name)
        origin = spec and spec.origin
        if origin and Path(origin).resolve().parents[1] != PACKAGES_FOLDER:
            return (
                f"{ascii(origin)[1:-1]} is in the way: Python imports it instead of the package "
                f"{name!r} that zoo needs. Rename it, or run the command `zoo`, which does not "
                "search the current folder."
            )
    return None


if _message := _shadowing_message():
    if Path(sys.argv[0] if sys.argv else "").stem in PROGRAMS:
        sys.stderr.write(f"error: {_message}\n")
        sys.exit(2)
    raise ImportError(_message)
