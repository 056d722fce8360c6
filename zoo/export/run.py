"""Export a plan (`zoo export`). Importing this module does not import JAX."""

from functools import partial
from typing import TYPE_CHECKING

from weights.progress import Progress
from zoo.checkpoints.source import open_weight_source
from zoo.export.request import Plan
from zoo.export.resources import check_resources

if TYPE_CHECKING:
    from zoo.export.exporter import Outcome


def run_export(plan: Plan, progress: Progress) -> "Outcome":
    """Load the weights of a plan, and write, verify and publish its files. Return the outcome.

    A thread reads the checkpoint while JAX is imported. **Raises** `BadOutput` if the disk is too
    small or a file cannot be written, and a `WeightsError` if the weights cannot be used.
    """
    check_resources(plan, progress)
    entry = plan.model
    with open_weight_source(plan.weights, entry, progress, plan.options.offline) as source:
        from zoo.architectures.builder import abstract
        from zoo.checkpoints.load import complete_provenance, load_without_digest
        from zoo.export.exporter import export_model
        from zoo.export.subject import Subject

        loaded = load_without_digest(source, entry)
        subject = Subject(entry, abstract(loaded.config), loaded.weights, is_network=True)
        return export_model(
            plan, subject, partial(complete_provenance, loaded, source, entry), progress
        )
