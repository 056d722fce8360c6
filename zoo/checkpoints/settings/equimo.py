"""Equimo's settings, in the form of 1.1.0."""

from importlib.metadata import version
from typing import Any

from zoo.architectures.architecture import Config
from zoo.architectures.kinds import architecture_of

EQUIMO = "1.1.0"  # the version whose format is written


def equimo_metadata(config: Config) -> dict[str, Any]:
    """`metadata.json` of an Equimo 1.x archive."""
    settings = architecture_of(config).equimo
    assert settings is not None, "Equimo has no others"
    return {
        "model_config": settings(config),
        "torch_hub_cfg": {},
        "timm": [],
        "jax_version": version("jax"),
        "equinox_version": version("equinox"),
        "equimo_version": EQUIMO,
    }
