"""Complex numbers as real ones with a trailing axis of two: the real part, the imaginary part.

What a primitive does to them is a short JAX function of both parts; it is traced in the place of
the primitive, so that nothing after the trace knows of complex numbers.
"""

from __future__ import annotations

import importlib

from converter.complex.registry import find

__all__ = ["find"]

# Modules that register functions when imported.
DOMAINS = ("arithmetic", "elementary", "inverse", "fourier", "moves", "order")
for _domain in DOMAINS:
    importlib.import_module(f"{__name__}.{_domain}")
