"""Vision models in plain Equinox, and their way out to ONNX."""

from zoo.registry import create, info, list_models

__version__ = "0.1.0"

__all__ = ["create", "info", "list_models"]
