"""Vision models in plain Equinox, and their way out to ONNX."""

from zoo.hub.session import VisionModel, load
from zoo.registry.lookup import create, info, list_models

__version__ = "0.1.0"

__all__ = ["VisionModel", "create", "info", "list_models", "load"]
