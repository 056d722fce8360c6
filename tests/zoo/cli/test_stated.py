"""Options of functions, requests, commands and docstrings, which have to agree."""

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

OTHER_OPTIONS = {
    "embed": {"json"},
    "search": {"dataset", "duplicates", "above", "index", "pictures", "out", "force", "json"},
    "export": {"models", "all", "filter", "dry_run", "json"},
    "bench": {"files", "plot", "json"},
}
"""Further options of commands, which their functions and requests do not have."""


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("embed", [embed]),
        ("search", [SearchRequest]),
        ("export", [WeightsOptions, Options]),
        ("bench", [BenchOptions]),
    ],
)
def test_commands_have_the_options_of_functions_and_requests(name, sources):
    parameters = {parameter.name: parameter for parameter in COMMANDS[name].params}
    groups = [option_parameters(source) for source in sources]
    options = {name: option for group in groups for name, (_, option) in group.items()}
    assert set(parameters) == set(options) | OTHER_OPTIONS[name]
    for parameter_name, option in options.items():
        assert parameters[parameter_name].help == option.help
        if not option.positional:
            assert parameters[parameter_name].opts == [option_name(parameter_name, option)]


@pytest.mark.parametrize(
    ("function", "request_class", "function_only"),
    [
        (embed, EmbedRequest, set()),
        (search, SearchRequest, {"dataset"}),
    ],
)
def test_requests_have_the_parameters_of_functions(function, request_class, function_only):
    assert {field.name for field in fields(request_class)} == set(
        option_parameters(function)
    ) - function_only
    of_request, of_function = option_parameters(request_class), option_parameters(function)
    assert all(of_function[name][1] == option for name, (_, option) in of_request.items())


def test_to_onnx_has_the_options_of_exports():
    options = {name: option for name, (_, option) in option_parameters(Options).items()}
    options["opset"] = options.pop("opsets")
    assert all(option == options[name] for name, (_, option) in option_parameters(to_onnx).items())
    assert {name for name in signature(to_onnx).parameters if name not in options} == {
        "model",
        "path",
    }


@pytest.mark.parametrize("function", [embed, search, to_onnx])
def test_docstrings_have_the_texts_of_options(function):
    docstring = " ".join(function.__doc__.split())
    for name, (_, option) in option_parameters(function).items():
        assert f"- `{name}`: {option.docstring_text}" in docstring


def test_errors_name_options_in_python_and_on_the_command_line(zoo):
    with pytest.raises(BadRequest) as error:
        embed("a", model="vit_digits", out="b.lance", append_model=True, extra=["logits"])
    line = "embed a --model vit_digits --out b.lance --append-model --with logits"
    printed = zoo(*line.split(), code=2)
    renamed = printed.error.replace("--with", "`extra`").replace("--append-model", "`append_model`")
    assert renamed == f"error: {error.value}"


def test_names_of_towers_agree():
    """The networks and the code that reads files have the same names of towers."""
    assert {*TOWERS.values()} == {*TOWER_NAMES}
