"""DINOv2 by Equimo and by transformers.

Both interpolate learned positions in another way than the original where there are no registers,
and Equimo also where there are (facts: 0.3 to 0.6), so they are asked at the size of training only;
`Dinov2WithRegistersModel` antialiases as the original does and is asked at any.
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
    return run_equimo(equimo_model(name, values), image)


def settings_of(config: Config) -> dict:
    """What the configurations of both of transformers' classes share."""
    gated = config.ffn == "swiglu_fused"
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        # The gated network takes two thirds of it, rounded up to a multiple of 8.
        "mlp_ratio": 4 if gated else config.hidden // config.dim,
        "use_swiglu_ffn": gated,
        "layer_norm_eps": config.norm_eps,
        "patch_size": config.patch_size,
        "image_size": config.positions.grid * config.patch_size,
    }


def transformers(config: Config, values: Values):
    from transformers import (
        Dinov2Config,
        Dinov2Model,
        Dinov2WithRegistersConfig,
        Dinov2WithRegistersModel,
    )

    if config.registers:
        settings = Dinov2WithRegistersConfig(
            **settings_of(config), num_register_tokens=config.registers
        )
        kind = Dinov2WithRegistersModel
    else:
        settings, kind = Dinov2Config(**settings_of(config)), Dinov2Model
    return transformers_model(kind, settings, huggingface_names.DINOV2_VIT, values)


def by_transformers(config: Config, values: Values, image) -> Arrays:
    return run_transformers(transformers(config, values), image)


REFERENCES = both(
    by_equimo, by_transformers, dinov2_vits14="dinov2_vits14", dinov2_vits14_reg="dinov2_vits14_reg"
)
