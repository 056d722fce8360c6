"""Which models a folder of checkpoints belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weights.errors import WeightsError
from weights.parameters import parameter
from weights.views import views_of
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.load import fitting_models, open_named
from zoo.common.errors import BadRequest


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of each model, and why other files of the folder were left out."""

    found: dict[str, Path]
    left_out: dict[str, str]


def find(folder: Path, entries: Sequence[ModelInfo]) -> Checkpoints:
    """Find checkpoints by the names under which they are published, or else by what is in a file.

    Of several checkpoints of a model the authors' is taken, then Equimo's, then a hub's.

    **Raises** `BadRequest` where there is none at all.
    """
    if not folder.is_dir():
        raise BadRequest(
            f"{parameter('weights_dir')} {folder} is no folder: name one that holds checkpoints."
        )
    named: dict[str, list[Path]] = {}
    for entry in entries:
        names = filter(None, (entry.checkpoint, entry.archive, Path(entry.repository).name))
        named[entry.name] = [path for name in names if (path := folder / name).exists()]
    by_model = {name: paths[0] for name, paths in named.items() if paths}
    named_paths = {path for paths in named.values() for path in paths}
    left_out: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path in named_paths or path.name.startswith("."):
            continue
        try:
            models = fitting_models(views_of(open_named(path)))
        except WeightsError as error:
            left_out[path.name] = str(error)
            continue
        if len(models) == 1 and models[0] in named:
            by_model.setdefault(models[0], path)
        elif len(models) != 1:
            fits = f"it fits {' and '.join(models)}" if models else "it fits no model of the zoo"
            left_out[path.name] = f"{fits}: give it the name that it was published under."
    if not by_model:
        others = (
            f" ({len(left_out)} files there are of other models or of none)" if left_out else ""
        )
        raise BadRequest(
            f"{parameter('weights_dir')} {folder} holds no checkpoint of the models that were "
            f"asked for{others}: put published files there, under their own names."
        )
    in_order = {entry.name: by_model[entry.name] for entry in entries if entry.name in by_model}
    return Checkpoints(in_order, left_out)
