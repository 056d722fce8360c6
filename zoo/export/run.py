"""`zoo export`: from a request to files. Importing this costs no JAX."""

from functools import partial
from typing import TYPE_CHECKING

from weights.progress import Progress
from zoo.checkpoints.source import opened
from zoo.export.request import Request
from zoo.export.resources import check_resources

if TYPE_CHECKING:
    from zoo.export.exporter import ExportResult


def run_export(request: Request, progress: Progress) -> "list[ExportResult]":
    """Export a model at each opset; a thread reads the checkpoint from before JAX is imported."""
    check_resources(request, progress)
    entry = request.model
    with opened(request.weights, entry, progress, request.options.offline) as source:
        from zoo.architectures.builder import abstract
        from zoo.checkpoints.load import begin, settle
        from zoo.export.exporter import export_model

        loaded = begin(source, entry)
        model, provenance = abstract(loaded.config), partial(settle, loaded, source, entry)
        return export_model(request, model, loaded.weights, provenance, progress)
