"""DINOv2 by Equimo and by transformers.

Without registers, both interpolate learned positions by another rule than the original. With
registers, Equimo still does (differences of 0.3 to 0.6 were measured). Those networks are therefore
compared only at the size of training. `Dinov2WithRegistersModel` antialiases as the original does
and is compared at any size.
"""

from tests.references import Arrays, running
from tests.references.running import Values
from weights.namings import huggingface_names
from zoo.architectures.architecture import Config


def by_equimo(name: str, config: Config, values: Values, image) -> Arrays:
    return running.run_equimo(running.equimo_model(name, values), image)


def transformers(config: Config, values: Values):
    from transformers import Dinov2Model, Dinov2WithRegistersModel

    gated = config.ffn == "swiglu_fused"
    settings = running.learned(config) | {"use_swiglu_ffn": gated}
    # The gated network's hidden width is two thirds of this, rounded up to a multiple of 8.
    settings["mlp_ratio"] = 4 if gated else config.hidden // config.dim
    model_class = Dinov2WithRegistersModel if config.registers else Dinov2Model
    if config.registers:
        settings["num_register_tokens"] = config.registers
    names = huggingface_names.DINOV2_VIT
    return running.transformers_model(
        model_class, model_class.config_class(**settings), names, values
    )


def by_transformers(config: Config, values: Values, image) -> Arrays:
    return running.run_transformers(transformers(config, values), image)


REFERENCES = running.both(
    by_equimo, by_transformers, dinov2_vits14="dinov2_vits14", dinov2_vits14_reg="dinov2_vits14_reg"
)
