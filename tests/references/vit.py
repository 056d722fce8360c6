"""The plain vision transformer by Equimo and by transformers.

Equimo runs the registry's `config`, and transformers the configuration that is `published` for it.
At other sizes than 224 x 224 transformers interpolates positions without antialiasing, with which
no weights were trained. Equimo antialiases with an option.
"""

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import huggingface_names
from zoo.architectures.architecture import Config


def by_equimo(name: str, config: Config, values: Values, image) -> Arrays:
    changes = {"dynamic_img_size": True, "interpolate_antialias": True}
    return running.run_equimo(running.equimo_model(name, values, **changes), image, logits=True)


def transformers(config: Config, values: Values):
    from transformers import ViTConfig, ViTForImageClassification

    if config.registers:
        names = (
            huggingface_names.TWO_HEADED_VIT
            if config.distilled
            else huggingface_names.DISTILLED_VIT
        )
        return running.by_settings(names, config, values)
    sizes = {"intermediate_size": config.hidden, "num_labels": config.classes}
    settings = ViTConfig(**running.learned(config), **sizes, hidden_act="gelu")
    names = huggingface_names.VIT
    return running.transformers_model(ViTForImageClassification, settings, names, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    model = transformers(config, values)
    options = {"interpolate_pos_encoding": True}
    tokens = running.run_transformers(model.base_model, image, ("last_hidden_state",), **options)
    return tokens | running.run_transformers(model, image, ("logits",), **options)


REFERENCES = {
    **running.both(by_equimo, by_transformers, vit_tiny_patch16_224="vit_tiny_patch16_224"),
    "deit_tiny_distilled_patch16_224": {"transformers": by_transformers},
}
