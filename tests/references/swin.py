"""Swin V2 by transformers, also at sizes that are not multiples of its windows."""

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import swin_names
from zoo.architectures.swin.swin_config import SwinConfig


def transformers(config: SwinConfig, values: Values):
    return running.by_settings(swin_names.HUGGINGFACE, config, values)


def by_transformers(config: SwinConfig, values: Values, image) -> Arrays:
    model = transformers(config, values)
    tokens = running.run_transformers(model.base_model, image)
    return tokens | running.run_transformers(model, image, ("logits",))


REFERENCES = {"swinv2_tiny_window8_256": {"transformers": by_transformers}}
