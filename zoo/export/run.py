"""`zoo export`: from a request to files. Importing this costs no JAX."""

from typing import TYPE_CHECKING

from weights.progress import Progress
from zoo.checkpoints.source import opened
from zoo.export.request import Request
from zoo.export.room import check_room

if TYPE_CHECKING:
    from zoo.export.opsets import Exported


def run(request: Request, progress: Progress) -> "list[Exported]":
    """Export a model at each opset of a request.

    While JAX is imported and the model is converted, a thread reads the checkpoint for its digest.
    """
    check_room(request, progress)
    entry = request.model
    with opened(request.weights, entry, progress, request.options.offline) as source:
        from zoo.checkpoints.load import config_of, read
        from zoo.export.opsets import export
        from zoo.models.build import abstract

        model = abstract(config_of(source, entry))
        return export(request, model, lambda: read(source, entry).weights, progress)
