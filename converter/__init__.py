"""Convert JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

``explain`` lists what prevents a conversion, ``check`` compares a file with JAX, ``bisect`` finds
the step of a conversion that changes a number, and ``join`` joins two models. ``rule``,
``expansion`` and ``recogniser`` register users' rules.

``import converter`` is fast: each name is imported on first use (``__init__.pyi``).
"""

import ast
from importlib import import_module
from pkgutil import get_data

_STUB = ast.parse(get_data(__name__, "__init__.pyi"))
_MODULES = {
    name.name: f"{__name__}.{line.module}"
    for line in _STUB.body
    if isinstance(line, ast.ImportFrom)
    for name in line.names
}
"""The module of each public name."""

__all__ = sorted(_MODULES)


def __getattr__(name):
    """Import the public name `name` on its first use and return it. Raise `AttributeError` for
    other names."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__():
    """Return the public names."""
    return __all__
