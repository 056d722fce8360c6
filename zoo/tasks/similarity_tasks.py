"""The tasks of networks that compare pictures with texts, and of their towers for texts."""

from functools import partial

from zoo.tasks.answer import (
    AskedPicture,
    Outputs,
    PictureAnswer,
    Question,
    Scores,
    features,
    likeliest_first,
)
from zoo.tasks.task import GivenOutput, Similarity, Task


def similarity_task(dim: int, scores: Scores, similarity: Similarity) -> Task:
    """Return the task of a network that compares vectors of `dim` channels; `scores` makes answers
    of its logits."""
    fit = "for each picture and each sentence how well they fit"
    unit = "the vectors, at length 1"
    return Task(
        name="zero-shot-image-classification",
        purpose="Says which of some sentences are about a picture, whatever the sentences are.",
        outputs={
            "logits_per_image": GivenOutput("[image_batch_size, text_batch_size]", fit),
            "text_embeds": GivenOutput(f"[text_batch_size, {dim}]", unit),
            "image_embeds": GivenOutput(f"[image_batch_size, {dim}]", unit),
        },
        answer=partial(_answer, scores),
        label_outputs=("logits_per_image",),
        page_draws=frozenset({"logits_per_image"}),
        similarity=similarity,
    )


def _answer(
    scores: Scores, outputs: Outputs, picture: AskedPicture, question: Question
) -> PictureAnswer:
    """Return how likely each label of the question is; the features of a question without any."""
    if not question.labels or "logits_per_image" not in outputs:
        return features(outputs)
    logits = outputs["logits_per_image"]
    return PictureAnswer("classes", tuple(likeliest_first(logits, question.labels, scores)))


def text_task(tokens: int | str, dim: int, width: int) -> Task:
    """Return the task of a network for texts of so many tokens, or of a named number, with `dim`
    channels of a token and `width` channels of the text's vector."""
    vector = f"[batch_size, {width}]"
    return Task(
        name="feature-extraction",
        purpose="Turns a sentence into a vector, to be compared with those of pictures.",
        outputs={
            "last_hidden_state": GivenOutput(
                f"[batch_size, {tokens}, {dim}]", "a vector for each word, after the final norm"
            ),
            "pooler_output": GivenOutput(vector, "a vector for the whole text: {pooler}"),
            "text_embeds": GivenOutput(vector, "the same vector once more"),
        },
    )
