"""A model's hyperparameters as other libraries write them."""

from zoo.configs.equimo import equimo
from zoo.configs.huggingface import (
    huggingface,
    huggingface_preprocessor,
    portable,
    transformers_kind,
)

__all__ = ["equimo", "huggingface", "huggingface_preprocessor", "portable", "transformers_kind"]
