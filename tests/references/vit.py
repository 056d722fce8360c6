"""The plain vision transformer by Equimo, which has the registry's `config`, and by transformers,
which has what is `published` for it.

Away from 224 x 224 transformers interpolates positions without antialiasing, as no weights were
trained; Equimo does so only if told.
"""

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
    changes = {"dynamic_img_size": True, "interpolate_antialias": True}
    return run_equimo(equimo_model(name, values, **changes), image, logits=True)


def transformers(config: Config, values: Values):
    from transformers import ViTConfig, ViTForImageClassification

    settings = ViTConfig(
        hidden_size=config.dim,
        num_hidden_layers=config.depth,
        num_attention_heads=config.heads,
        intermediate_size=config.hidden,
        hidden_act="gelu",
        layer_norm_eps=config.norm_eps,
        patch_size=config.patch_size,
        image_size=config.positions.grid * config.patch_size,
        num_labels=config.classes,
    )
    return transformers_model(ViTForImageClassification, settings, huggingface_names.VIT, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    model = transformers(config, values)
    tokens = run_transformers(model.vit, image, ("last_hidden_state",))
    return tokens | run_transformers(model, image, ("logits",))


REFERENCES = both(by_equimo, by_transformers, vit_tiny_patch16_224="vit_tiny_patch16_224")
