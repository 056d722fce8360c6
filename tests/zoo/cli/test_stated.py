"""An option is stated once: functions, requests, commands and docstrings cannot disagree."""

from dataclasses import fields
from inspect import signature

import pytest
from typer.main import get_command

from zoo import embed, search, to_onnx
from zoo.apps.bench.bench_options import BenchOptions
from zoo.apps.embed.requests import EmbedRequest, SearchRequest
from zoo.architectures.kinds import TOWER_NAMES
from zoo.artifacts.choices import TOWERS
from zoo.checkpoints.source import WeightsOptions
from zoo.cli.app import app
from zoo.cli.command_options import option_name
from zoo.common.errors import BadRequest
from zoo.common.options import option_parameters
from zoo.export.request import Options

COMMANDS = get_command(app).commands

OWN = {
    "embed": {"json"},
    "search": {"dataset", "duplicates", "above", "index", "pictures", "out", "force", "json"},
    "export": {"models", "all", "filter", "dry_run", "json"},
    "bench": {"files", "plot", "json"},
}
"""What commands have beside the options of functions and requests."""


@pytest.mark.parametrize(
    ("name", "makers"),
    [
        ("embed", [embed]),
        ("search", [SearchRequest]),
        ("export", [WeightsOptions, Options]),
        ("bench", [BenchOptions]),
    ],
)
def test_a_command_has_the_options_of_what_it_calls(name, makers):
    said = {each.name: each for each in COMMANDS[name].params}
    groups = [option_parameters(maker) for maker in makers]
    options = {name: option for group in groups for name, (_, option) in group.items()}
    assert set(said) == set(options) | OWN[name]
    for parameter_name, option in options.items():
        assert said[parameter_name].help == option.help
        if not option.positional:
            assert said[parameter_name].opts == [option_name(parameter_name, option)]


@pytest.mark.parametrize(
    ("function", "request_class", "elsewhere"),
    [
        (embed, EmbedRequest, set()),
        (search, SearchRequest, {"dataset"}),
    ],
)
def test_a_request_has_what_its_function_takes(function, request_class, elsewhere):
    assert {each.name for each in fields(request_class)} == set(
        option_parameters(function)
    ) - elsewhere
    asked, given = option_parameters(request_class), option_parameters(function)
    assert all(given[name][1] == option for name, (_, option) in asked.items())


def test_to_onnx_has_options_of_an_export():
    options = {name: option for name, (_, option) in option_parameters(Options).items()}
    options["opset"] = options.pop("opsets")
    assert all(option == options[name] for name, (_, option) in option_parameters(to_onnx).items())
    assert {name for name in signature(to_onnx).parameters if name not in options} == {
        "model",
        "path",
    }


@pytest.mark.parametrize("function", [embed, search, to_onnx])
def test_a_docstring_says_what_each_parameter_is(function):
    told = " ".join(function.__doc__.split())
    for name, (_, option) in option_parameters(function).items():
        assert f"- `{name}`: {option.docstring_text}" in told


def test_each_says_it_in_its_own_words(zoo):
    with pytest.raises(BadRequest) as refused:
        embed("a", model="vit_digits", out="b.lance", append_model=True, extra=["logits"])
    line = "embed a --model vit_digits --out b.lance --append-model --with logits"
    said = zoo(*line.split(), code=2)
    told = said.error.replace("--with", "`extra`").replace("--append-model", "`append_model`")
    assert told == f"error: {refused.value}"


def test_parts_of_a_model_of_two_are_called_alike():
    """By networks, which say what they are, and by what reads files, which knows what they take."""
    assert {*TOWERS.values()} == {*TOWER_NAMES}
