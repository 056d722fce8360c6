"""List everything that prevents a conversion, before anything is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.api.request import GraphRequest, accepts_arguments_of
from converter.errors import UnsupportedError
from converter.lower import lower
from converter.pipeline import passes


@dataclass(frozen=True)
class Obstacle:
    """A reason why a function cannot be converted.

    ``reason`` includes advice. ``lines`` are the lines of the user's source in which it occurs,
    each once. There may be none.
    """

    reason: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.reason, *(f"    {line}" for line in self.lines)])


@dataclass(frozen=True)
class Explanation:
    """The obstacles of a conversion; the list is empty if the function can be converted.

    ``is_complete`` is false if an obstacle was found while tracing or in a pass, so that later
    operations were not examined.
    """

    obstacles: list[Obstacle]
    is_complete: bool = True

    @property
    def is_convertible(self) -> bool:
        """True if there are no obstacles, so that the function can be converted."""
        return not self.obstacles

    def __str__(self) -> str:
        if self.is_convertible:
            return "everything can be converted"
        unseen = [] if self.is_complete else ["later operations were not examined"]
        return "\n".join([*map(str, self.obstacles), *unseen])


@accepts_arguments_of(GraphRequest)
def explain(request: GraphRequest) -> Explanation:
    """Return the obstacles that ``to_onnx`` would meet, without writing a model.

    All arguments have the same meaning as in ``to_onnx``. An obstacle while tracing or in a pass
    ends the search; it is then the only one, and ``Explanation.is_complete`` is False. Otherwise
    all operations without a rule are listed.

    Raises:
        SpecError: an argument cannot be used.
    """
    refused: list[UnsupportedError] = []
    try:
        graph = request.trace(request.kept_calls)
        passes.run_passes(graph, request)
    except UnsupportedError as error:
        return Explanation(_group_by_reason([error]), is_complete=False)
    lower(graph, request.selected_opset, request.runtime, refused=refused)
    return Explanation(_group_by_reason(refused))


def _group_by_reason(refused: Sequence[UnsupportedError]) -> list[Obstacle]:
    """Return one obstacle for each different reason, in order, with the source lines of all its
    errors."""
    lines: dict[str, dict[str, None]] = {}
    for error in refused:
        lines.setdefault(error.reason, {})[error.line] = None
    return [
        Obstacle(reason, tuple(filter(None, source_lines)))
        for reason, source_lines in lines.items()
    ]
