"""Labels in words: the sentences that they are put into, and how likely each is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weights.initializers import Float32
from zoo.common.errors import BadRequest
from zoo.tasks.scores import SCORES, Scores

if TYPE_CHECKING:
    from zoo.tasks.answer import Answer

TEMPLATE = "This is a photo of {}."
"""As transformers' pipeline puts labels into a sentence."""


def in_sentences(labels: Sequence[str], template: str = TEMPLATE) -> list[str]:
    """A sentence for each label. **Raises** `BadRequest` for something that is no labels."""
    is_list = not isinstance(labels, str) and all(isinstance(each, str) for each in labels)
    if not is_list or "{}" not in template:
        raise BadRequest(
            f"got labels {ascii(labels)[:80]} in {ascii(template)[:80]}: give a list of "
            "strings, and a sentence with {} in it."
        )
    return [template.replace("{}", label) for label in labels]


def likeliest_first(logits: Float32, labels: Sequence[str], scores: Scores) -> list[Answer]:
    """How likely each label is, of `logits [labels]`, the likeliest first."""
    # What draws answers takes its time to be imported.
    from zoo.tasks.answer import best

    return list(best(SCORES[scores](logits), labels, len(labels)))
