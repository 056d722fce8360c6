"""JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

``explain`` says what cannot be converted, ``check`` compares a file with JAX, ``bisect`` names the
step of a conversion that changes a number, ``join`` puts two models in a row. ``rule``,
``expansion`` and ``recogniser`` register what is to be converted in another way.

``import converter`` costs nothing: each name is imported when it is first used (``__init__.pyi``).
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
"""By public name, the module that it is imported from."""

__all__ = sorted(_MODULES)


def __getattr__(name):
    """A public name, imported when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__():
    """The public names."""
    return __all__
