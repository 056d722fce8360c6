"""What stands in the way of a conversion, all of it at once, before anything is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.api.request import GraphRequest, accepts_arguments_of
from converter.errors import Unsupported
from converter.lower import lower
from converter.pipeline import passes


@dataclass(frozen=True)
class Obstacle:
    """Something that cannot be written, why and what to do, and the source lines it comes from."""

    reason: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.reason, *(f"    {line}" for line in self.lines)])


@dataclass(frozen=True)
class Explanation:
    """The obstacles, none of which is left where a function can be converted.

    ``is_whole`` is false where tracing ended at an obstacle: what comes after it was not seen.
    """

    obstacles: list[Obstacle]
    is_complete: bool = True

    @property
    def is_convertible(self) -> bool:
        return not self.obstacles

    def __str__(self) -> str:
        if self.is_convertible:
            return "everything can be converted"
        unseen = [] if self.is_complete else ["what comes after it was not looked at"]
        return "\n".join([*map(str, self.obstacles), *unseen])


@accepts_arguments_of(GraphRequest)
def explain(request: GraphRequest) -> Explanation:
    """Report what ``to_onnx`` could not write of a function; all arguments are as there."""
    refused: list[Unsupported] = []
    try:
        graph = request.trace()
        passes.run_passes(graph, request)
    except Unsupported as error:
        return Explanation(_group_by_reason([error]), is_complete=False)
    lower(graph, request.version, request.runtime, refused=refused)
    return Explanation(_group_by_reason(refused))


def _group_by_reason(refused: Sequence[Unsupported]) -> list[Obstacle]:
    lines: dict[str, dict[str, None]] = {}
    for error in refused:
        lines.setdefault(error.reason, {})[error.line] = None
    return [
        Obstacle(reason, tuple(filter(None, source_lines)))
        for reason, source_lines in lines.items()
    ]
