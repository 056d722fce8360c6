"""A model's hyperparameters as other libraries write them."""

from zoo.checkpoints.settings.equimo import equimo
from zoo.checkpoints.settings.huggingface import (
    huggingface,
    huggingface_preprocessor,
    portable,
    transformers_kind,
)

__all__ = ["equimo", "huggingface", "huggingface_preprocessor", "portable", "transformers_kind"]
