"""SigLIP 2 by Equimo, whose network has no head, and by transformers, at any size."""

from functools import partial

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import huggingface_names
from zoo.architectures.architecture import Config


def by_equimo(name: str, config: Config, values: Values, image) -> Arrays:
    headless_values = {
        path: value for path, value in values.items() if not path.startswith("attn_pool.")
    }
    return running.run_equimo(running.equimo_model(name, headless_values), image)


def transformers(config: Config, values: Values):
    from transformers import SiglipVisionConfig, SiglipVisionModel

    settings = SiglipVisionConfig(**running.learned(config), intermediate_size=config.hidden)
    names = huggingface_names.SIGLIP_VIT
    return running.transformers_model(SiglipVisionModel, settings, names, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    model = transformers(config, values)
    return running.run_transformers(model, image, interpolate_pos_encoding=True)


texts = partial(running.by_settings, huggingface_names.SIGLIP_TEXT)
both = partial(running.by_settings, huggingface_names.SIGLIP_DUAL)

REFERENCES = running.both(by_equimo, by_transformers, siglip2_vitb16_224="siglip2_vitb16_224")
