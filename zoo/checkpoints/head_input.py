"""What a custom head takes of its network, where the tensors do not determine that."""

from weights.errors import MappingError
from weights.parameters import parameter
from zoo.architectures.kinds import architecture_of
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import Candidate
from zoo.checkpoints.settings.file_names import CONFIG
from zoo.common.errors import BadRequest


def check_head_input(candidate: Candidate, settings: Settings | None) -> None:
    """**Raises** `BadRequest` where a custom head may take one of several vectors of the same
    width, and no setting says which, and `MappingError` where none is known that is as wide."""
    view, config = candidate.view, candidate.config
    if not candidate.is_custom_head(settings):
        return
    choices = architecture_of(config).head_inputs(config)
    if choices is None:
        raise MappingError(
            f"{view.path} has a linear layer `{view.head}` on the network, as wide as several of "
            "its vectors, and no library says which they are: leave it out with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )
    if not choices and view.head_is_convolution:
        choices = {"avg": architecture_of(config).head_takes(config)}
    if not choices or (settings is not None and settings.pool in choices):
        return
    listed = " or ".join(
        f'{{"global_pool": "{pool}"}} ({takes})' for pool, takes in choices.items()
    )
    raise BadRequest(
        f"{view.path} has a linear layer `{view.head}` on the network, and no tensor tells which "
        f"vector it takes: write {listed} into a {CONFIG} beside it, or leave it out with "
        f"{parameter('without_head')}."
    )
