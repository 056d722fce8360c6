"""Tasks of networks that compare pictures with texts, and of their towers for texts."""

from functools import partial

from zoo.tasks.answer import (
    InputPicture,
    Outputs,
    PictureAnswer,
    Question,
    Scores,
    answer_features,
    rank_labels,
)
from zoo.tasks.task import OutputDescription, Similarity, Task


def similarity_task(dim: int, scores: Scores, similarity: Similarity) -> Task:
    """Return the task of a network that compares vectors of pictures with vectors of texts.

    **Arguments**

    - `dim`: the channels of a vector.
    - `scores`: the function that turns logits into scores.
    - `similarity`: the function that reads the scale and the bias of the logits from the weights.
    """
    match_words = "for each picture and each sentence the logit that they match"
    vector_words = "the vectors, at length 1"
    return Task(
        name="zero-shot-image-classification",
        purpose="Says which of several sentences describe a picture; the sentences are free.",
        outputs={
            "logits_per_image": OutputDescription(
                "[image_batch_size, text_batch_size]", match_words
            ),
            "text_embeds": OutputDescription(f"[text_batch_size, {dim}]", vector_words),
            "image_embeds": OutputDescription(f"[image_batch_size, {dim}]", vector_words),
        },
        answer=partial(_answer, scores),
        label_outputs=("logits_per_image",),
        page_draws=frozenset({"logits_per_image"}),
        similarity=similarity,
    )


def _answer(
    scores: Scores, outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the labels of the question with their scores for a picture, best first.

    Return the outputs as features if the question has no labels or the outputs contain no logits of
    pairs. `scores` is the function that turns logits into scores.
    """
    if not question.labels or "logits_per_image" not in outputs:
        return answer_features(outputs)
    logits = outputs["logits_per_image"]
    return PictureAnswer("classes", tuple(rank_labels(logits, question.labels, scores)))


def text_task(tokens: int | str, dim: int, width: int) -> Task:
    """Return the task of a network that turns texts into vectors.

    **Arguments**

    - `tokens`: the number of tokens of a text, or the name of a symbolic dimension.
    - `dim`: the channels of a token.
    - `width`: the channels of the text's vector.
    """
    vector = f"[batch_size, {width}]"
    return Task(
        name="feature-extraction",
        purpose="Turns a sentence into a vector that is compared with the vectors of pictures.",
        outputs={
            "last_hidden_state": OutputDescription(
                f"[batch_size, {tokens}, {dim}]", "a vector for each word, after the final norm"
            ),
            "pooler_output": OutputDescription(vector, "a vector for the whole text: {pooler}"),
            "text_embeds": OutputDescription(vector, "the same vector once more"),
        },
    )
