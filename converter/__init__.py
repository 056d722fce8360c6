"""JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

``explain`` says what cannot be converted, ``check`` compares a file with JAX, ``bisect`` names the
step of a conversion that changes a number, ``join`` puts two models in a row. ``rule``,
``expansion`` and ``recogniser`` register what is to be converted in another way.

``import converter`` costs nothing: each name is imported when it is first used (``__init__.pyi``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
