"""The words of configurations are those of layers, and only configurations have defaults."""

import inspect
from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import pytest

import zoo.models
from zoo.models import config

SETTINGS = {
    field.name
    for stated in vars(config).values()
    if is_dataclass(stated)
    for field in fields(stated)
}


def layers():
    """Every class of the networks' modules, by its name."""
    found = iter_modules(zoo.models.__path__, "zoo.models.")
    modules = [import_module(module.name) for module in found if module.name != config.__name__]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }


LAYERS = layers()


def test_layers_are_found():
    assert {"VisionTransformer", "Block", "ConvNeXt", "AxialRoPE", "Mlp"} <= LAYERS.keys()


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_setting_has_its_default_in_the_configuration_alone(layer):
    arguments = inspect.signature(layer).parameters.values()
    defaults = {each.name for each in arguments if each.default is not each.empty}
    assert not defaults & SETTINGS


@pytest.mark.parametrize("stated", [config.ViTConfig, config.ConvNeXtConfig])
def test_a_setting_of_a_configuration_is_called_so_by_a_layer(stated):
    """Those of norms, which are Equinox's, are given to them by `build_model`."""
    arguments = {name for layer in LAYERS.values() for name in inspect.signature(layer).parameters}
    assert {field.name for field in fields(stated)} - arguments <= {"norm_eps", "norm_bias"}
