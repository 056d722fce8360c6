"""A zoo of vision networks in JAX and Equinox, and their export to ONNX.

    >>> import jax, zoo
    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> features = jax.vmap(model)(zoo.preprocess(model, "cat.png")).pooler_output
    >>> written = zoo.to_onnx(model, "dinov3_vits16.onnx")

Importing this package does not import JAX. Its functions import it when they are called.
"""

import zoo.common.shadows  # noqa: F401 - before anything that imports `converter` or `weights`
from zoo.apps.embed.calls import embed, search
from zoo.artifacts.session import VisionModel, load
from zoo.checkpoints.pretrained import from_pretrained
from zoo.common.versions import __version__
from zoo.export.to_onnx import to_onnx
from zoo.registry.lookup import create, info, list_models
from zoo.registry.preprocess import preprocess

__all__ = [
    "VisionModel",
    "__version__",
    "create",
    "embed",
    "from_pretrained",
    "info",
    "list_models",
    "load",
    "preprocess",
    "search",
    "to_onnx",
]
