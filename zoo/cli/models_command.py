"""`zoo list` and `zoo info`: which models there are, and everything about one."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weights.sources.locate import searched
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.command_options import model_names, options_of
from zoo.cli.console import CommandResult
from zoo.cli.model_argument import here, publisher
from zoo.common.errors import BadFile
from zoo.common.options import argument
from zoo.registry.lookup import MODELS, fitting, info
from zoo.registry.model_words import position_words

if TYPE_CHECKING:
    from zoo.cli.tables import Block


@options_of()
def list_command(
    patterns: Annotated[
        Sequence[str],
        model_names("Names, aliases or families, or patterns such as `*vitl*`.", "PATTERN"),
    ] = (),
) -> CommandResult[list[ModelInfo]]:
    """List the models, with their size, their licence and where their weights come from."""
    return CommandResult(
        fitting(patterns), list_blocks, lambda entries: list(map(model_record, entries))
    )


MODEL = argument(
    "MODEL|FILE|FOLDER",
    "The name of a model, or the path of a checkpoint, of an .onnx file with its manifest, or of a "
    "folder of `zoo build` or `zoo pull`.",
)


@options_of()
def describe(model: Annotated[str, MODEL]) -> CommandResult[ModelInfo]:
    """Describe one model: its architecture, preprocessing, weights and licence."""
    return CommandResult(described_entry(model), model_blocks, model_record)


def described_entry(model: str) -> ModelInfo:
    """The entry of a model by its name, or of what lies at a path."""
    path = Path(model).expanduser()
    if model in MODELS or not path.exists():
        return info(model)
    # Manifests are read with pydantic, and a checkpoint is known by what JAX would build.
    from zoo.artifacts.find import is_built
    from zoo.artifacts.read import near, read_folder_manifest, stated_entry

    if is_built(path):
        return stated_entry(read_folder_manifest(path))
    if path.suffix == ".onnx":
        if (manifest := near(path)) is None:
            raise BadFile(f"{path} has no manifest that says what it is: keep it beside it.")
        return stated_entry(manifest)
    from zoo.checkpoints.identify import recognised

    return recognised(GivenCheckpoint(path))[0]


def model_record(entry: ModelInfo) -> dict[str, Any]:
    """All that the registry knows of a model, for JSON, and where its weights are."""
    kind, place = publisher(entry)
    names = [field.name for field in fields(entry) if field.name != "publisher"]
    facts = {name: vars(entry)[name] for name in names}
    networks = {each.naming.name: each.config for each in entry.published}
    libraries = {each.naming.name: each.library for each in entry.published}
    options = {each.naming.name: each.options for each in entry.published}
    return facts | {
        "namings": [naming.name for naming in entry.namings],
        "published": {name: each for name, each in networks.items() if each != entry.config},
        "libraries": {name: each for name, each in libraries.items() if each is not None},
        "options": {name: each for name, each in options.items() if each},
        **{"source": entry.source, "licence": entry.licence, "papers": entry.papers},
        "architecture": entry.config.text,
        "input_size": entry.preprocessing.size,
        "native_size": entry.native,
        "stride": entry.config.stride,
        "weights": {"from": kind, "place": place, "here": here(entry)},
    }


COPY = "which is not the publisher's: `zoo weights download --mirror`"


def list_blocks(entries: list[ModelInfo]) -> "Iterator[Block]":
    """One line a model."""
    from zoo.cli.tables import Table

    headings = ("model", "family", ">params", ">input", "~licence", "weights from")
    yield Table(headings, map(model_row, entries))
    yield "\nA name in the last column is an owner on the hub; `zoo info MODEL` says more."


def model_row(entry: ModelInfo) -> tuple[str, ...]:
    """Row of a model in the list."""
    kind, place = publisher(entry)
    words = {"hub": place.partition("/")[0], "publisher": "by hand", "package": "this package"}
    return (
        entry.name,
        entry.family,
        f"{entry.parameters / 1e6:.{1 if entry.parameters < 1e9 else 0}f} M",
        "x".join(str(side) for side in dict.fromkeys(entry.preprocessing.size)),
        # A long name may wrap.
        Path(entry.licence.text).stem.replace("fair-", "fair "),
        "this machine" if kind != "package" and here(entry) else words.get(kind, kind),
    )


def model_blocks(entry: ModelInfo) -> "Iterator[Block]":
    """Everything about one model."""
    from zoo.cli.tables import Facts

    (kind, place), path = publisher(entry), here(entry)
    sources = {
        "package": "in this package",
        "hub": f"{place} on the hub, downloaded when they are needed",
        "publisher": f"to be downloaded by hand from {place}",
        "nobody": "none are published that this package reads",
    }
    facts = {
        "also called": ", ".join(entry.aliases) or "nothing else",
        "family": entry.family,
        "parameters": f"{entry.parameters:,}",
        "architecture": entry.config.text,
        "preprocessing": entry.preprocessing.words,
        "positions": position_words(entry.config),
        **({"pooler_output": entry.pooler} if entry.pooler else {}),
        "weights": sources[kind] if path is None else f"on this machine, {path}",
        "copies": ", ".join(f"{file.repository}, {COPY}" for file in entry.mirrors[:1]) or "none",
        "checkpoint": entry.file,
        "looked for in": searched(),
        "licence": f"{entry.licence.name}, {entry.licence.page}",
        "download": entry.licence.download or "not needed",
        "source": entry.source,
        **({"papers": ", ".join(entry.paper_pages)} if entry.papers else {}),
    }
    yield Facts(entry.name, facts)
