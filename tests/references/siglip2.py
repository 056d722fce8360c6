"""SigLIP 2 by Equimo, which has no head, and by transformers, at any size."""

from tests.references import Arrays
from tests.references.running import (
    Values,
    both,
    equimo_model,
    run_equimo,
    run_transformers,
    transformers_model,
)
from weights.namings import huggingface_names
from zoo.models.config import Config


def by_equimo(name: str, config: Config, values: Values, image) -> Arrays:
    body = {path: value for path, value in values.items() if not path.startswith("attn_pool.")}
    return run_equimo(equimo_model(name, body), image)


def transformers(config: Config, values: Values):
    from transformers import SiglipVisionConfig, SiglipVisionModel

    settings = SiglipVisionConfig(
        hidden_size=config.dim,
        num_hidden_layers=config.depth,
        num_attention_heads=config.heads,
        intermediate_size=config.hidden,
        layer_norm_eps=config.norm_eps,
        patch_size=config.patch_size,
        image_size=config.positions.grid * config.patch_size,
    )
    return transformers_model(SiglipVisionModel, settings, huggingface_names.SIGLIP_VIT, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    model = transformers(config, values)
    return run_transformers(model, image, interpolate_pos_encoding=True)


REFERENCES = both(by_equimo, by_transformers, siglip2_vitb16_224="siglip2_vitb16_224")
