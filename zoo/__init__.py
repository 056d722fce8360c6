"""Vision models in plain Equinox, and their way out to ONNX."""

from zoo.registry import create, info, list_models
from zoo.session import VisionModel, load

__version__ = "0.1.0"

__all__ = ["VisionModel", "create", "info", "list_models", "load"]
