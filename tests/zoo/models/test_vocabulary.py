"""The words of configurations are those of layers, and only configurations have defaults."""

import inspect
from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import zoo.models
from zoo.models.config import ConvNeXtConfig, ViTConfig

MODULES = [import_module(found.name) for found in iter_modules(zoo.models.__path__, "zoo.models.")]
CONFIGURATIONS = [module for module in MODULES if module.__name__.endswith("config")]
SETTINGS = {
    field.name
    for module in CONFIGURATIONS
    for stated in vars(module).values()
    if is_dataclass(stated)
    for field in fields(stated)
}

NORMS = {"norm_eps", "norm_bias", "final_norm_eps"}


def arguments():
    """Those of every class of the networks' modules."""
    for module in MODULES:
        for value in () if module in CONFIGURATIONS else vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield from inspect.signature(value).parameters.values()


def test_a_setting_is_called_so_by_a_layer_and_has_its_default_in_the_configuration_alone():
    """Those of norms, which are Equinox's, are given to them by `build_model`."""
    assert not {each.name for each in arguments() if each.default is not each.empty} & SETTINGS
    names = {each.name for each in arguments()}
    for stated in (ViTConfig, ConvNeXtConfig):
        assert {field.name for field in fields(stated)} - names <= NORMS
