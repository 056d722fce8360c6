"""A model's hyperparameters as other libraries write them."""

from zoo.checkpoints.settings.equimo import equimo_metadata
from zoo.checkpoints.settings.huggingface import (
    portable_config,
    transformers_config,
    transformers_kind,
    transformers_processor,
)

__all__ = [
    "equimo_metadata",
    "portable_config",
    "transformers_config",
    "transformers_kind",
    "transformers_processor",
]
