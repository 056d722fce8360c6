"""`zoo list` and `zoo info`: the models of the zoo, and the facts about one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weights.sources.locate import describe_searched_folders
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.command_options import derive_options, model_names
from zoo.cli.console import CommandResult
from zoo.cli.model_argument import find_weights_path, find_weights_source
from zoo.common.errors import BadFile
from zoo.common.options import argument
from zoo.registry.lookup import MODELS, find_models, info
from zoo.registry.model_descriptions import describe_positions

if TYPE_CHECKING:
    from zoo.cli.tables import Block


@derive_options()
def list_command(
    patterns: Annotated[
        Sequence[str],
        model_names("Names, aliases or families, or patterns such as `*vitl*`.", "PATTERN"),
    ] = (),
) -> CommandResult[list[ModelInfo]]:
    """List the models with their size, their licence and the source of their weights."""
    return CommandResult(
        find_models(patterns), list_blocks, lambda entries: list(map(model_record, entries))
    )


MODEL = argument(
    "MODEL|FILE|FOLDER",
    "The name of a model, or the path of a checkpoint, of an .onnx file with its manifest, or of a "
    "folder of `zoo build` or `zoo pull`.",
)


@derive_options()
def describe(model: Annotated[str, MODEL]) -> CommandResult[ModelInfo]:
    """Describe one model: its architecture, preprocessing, weights and licence."""
    return CommandResult(resolve_entry(model), model_blocks, model_record)


def resolve_entry(model: str) -> ModelInfo:
    """Return the entry of a model from the model's name, or from a path.

    The path may be a built folder, an ONNX file with its manifest, or a checkpoint, whose model is
    recognised.

    **Raises** a `ZooError` if the model is unknown or the file has no manifest.
    """
    path = Path(model).expanduser()
    if model in MODELS or not path.exists():
        return info(model)
    # Import these modules only if they are needed, because they import pydantic and JAX.
    from zoo.artifacts.find import is_built_folder
    from zoo.artifacts.read import entry_of_manifest, read_folder_manifest, read_nearby_manifest

    if is_built_folder(path):
        return entry_of_manifest(read_folder_manifest(path))
    if path.suffix == ".onnx":
        if (manifest := read_nearby_manifest(path)) is None:
            raise BadFile(
                f"{path} has no manifest: put its .manifest.json file into the same folder."
            )
        return entry_of_manifest(manifest)
    from zoo.checkpoints.identify import identify_checkpoint

    return identify_checkpoint(GivenCheckpoint(path))[0]


def model_record(entry: ModelInfo) -> dict[str, Any]:
    """Return all facts about a model, with the location of its weights, as `--json` prints them."""
    kind, location = find_weights_source(entry)
    names = [field.name for field in fields(entry) if field.name != "publisher"]
    facts = {name: vars(entry)[name] for name in names}
    configs = {item.naming.name: item.config for item in entry.published}
    libraries = {item.naming.name: item.library_config for item in entry.published}
    options = {item.naming.name: item.options for item in entry.published}
    return facts | {
        "namings": [naming.name for naming in entry.namings],
        "published": {name: config for name, config in configs.items() if config != entry.config},
        "libraries": {name: config for name, config in libraries.items() if config is not None},
        "options": {name: setting for name, setting in options.items() if setting},
        **{"source": entry.source, "licence": entry.licence, "papers": entry.papers},
        "architecture": entry.config.description,
        "input_size": entry.preprocessing.size,
        "native_size": entry.native_size,
        "stride": entry.config.stride,
        "weights": {"from": kind, "place": location, "here": find_weights_path(entry)},
    }


COPY_REMARK = "which is not the publisher's: `zoo weights download --mirror`"
"""The remark about a copy of weights that somebody else than the publisher offers."""


def list_blocks(entries: list[ModelInfo]) -> "Iterator[Block]":
    """Yield what is printed about models: a table with a row for each."""
    from zoo.cli.tables import Table

    headings = ("model", "family", ">params", ">input", "~licence", "weights from")
    yield Table(headings, map(model_row, entries))
    yield "\nA name in the last column is an owner on the hub; `zoo info MODEL` shows all facts."


def model_row(entry: ModelInfo) -> tuple[str, ...]:
    """Return the row of a model in the list.

    The cells are the name, family, parameters, input size, licence, and the source of the weights.
    """
    kind, location = find_weights_source(entry)
    words = {"hub": location.partition("/")[0], "publisher": "by hand", "package": "this package"}
    return (
        entry.name,
        entry.family,
        f"{entry.parameters / 1e6:.{1 if entry.parameters < 1e9 else 0}f} M",
        "x".join(str(side) for side in dict.fromkeys(entry.preprocessing.size)),
        # A long name may wrap.
        Path(entry.licence.text).stem.replace("fair-", "fair "),
        "this machine" if kind != "package" and find_weights_path(entry) else words.get(kind, kind),
    )


def model_blocks(entry: ModelInfo) -> "Iterator[Block]":
    """Yield what is printed about one model: its facts by name."""
    from zoo.cli.tables import Facts

    (kind, location), path = find_weights_source(entry), find_weights_path(entry)
    sources = {
        "package": "in this package",
        "hub": f"{location} on the hub, downloaded when they are needed",
        "publisher": f"to be downloaded by hand from {location}",
        "nobody": "none are published in a format that this package reads",
    }
    facts = {
        "also called": ", ".join(entry.aliases) or "nothing else",
        "family": entry.family,
        "parameters": f"{entry.parameters:,}",
        "architecture": entry.config.description,
        "preprocessing": entry.preprocessing.description,
        "positions": describe_positions(entry.config),
        **({"pooler_output": entry.pooler} if entry.pooler else {}),
        "weights": sources[kind] if path is None else f"on this machine, {path}",
        "copies": ", ".join(f"{file.repository}, {COPY_REMARK}" for file in entry.mirrors[:1])
        or "none",
        "checkpoint": entry.weights_name,
        "looked for in": describe_searched_folders(),
        "licence": f"{entry.licence.name}, {entry.licence.page}",
        "download": entry.licence.download or "not needed",
        "source": entry.source,
        **({"papers": ", ".join(entry.paper_pages)} if entry.papers else {}),
    }
    yield Facts(entry.name, facts)
