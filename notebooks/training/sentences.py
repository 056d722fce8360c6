"""Sentences about digits, for the training of `siglip_digits_dual`, and the digits of which each is
true.

A phrase such as "the number 7" is put into a frame such as "this is a photo of {}.". This gives
thousands of sentences with about fifty different words.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.data.digits.data import DIGIT_CLASSES

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

NOUNS = ("digit", "number", "figure")

FRAMES = (
    *("{}", "{}.", "this is {}.", "it is {}", "this is a photo of {}.", "a photo of {}"),
    *("a picture of {}", "an image of {}", "a drawing of {}", "the picture shows {}."),
)

OTHER_PHRASES = (
    *("a cat", "a dog", "a bird", "a car", "a tree", "a house", "a person", "a letter"),
    *("the letter a", "a word", "nothing", "something", "something else", "no digit", "no number"),
)
"""Phrases that are true of no digit."""

FORMS = (
    *("{}", "the {}", "a {}", "an {}", "a handwritten {}"),
    *(f"the {noun} {{}}" for noun in NOUNS),
    *(f"the handwritten {noun} {{}}" for noun in NOUNS),
)
"""Forms of a phrase about one digit."""

WORDS_OF_DIGITS = (NAMES, tuple(map(str, range(DIGIT_CLASSES))))

DECIDING_WORDS = frozenset(
    {*NAMES, *WORDS_OF_DIGITS[1], "even", "odd", "less", "greater", "not", "no"}
)
"""Words that determine of which digits a sentence is true."""


@dataclass(frozen=True)
class Sentences:
    """Sentences, and the digits of which they are true.

    **Arguments:**

    - `texts`: the sentences.
    - `true_of`: whether a sentence is true of a digit, `[texts, 10]`.
    - `digit_rows`: rows of sentences that differ only in the digit, `[forms, 10]`.
    """

    texts: tuple[str, ...]
    true_of: NDArray[np.bool_]
    digit_rows: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float32]:
        """Probability with which training draws each sentence. Of five draws, three are about one
        digit, one is about several digits, and one is about none."""
        counts = self.true_of.sum(axis=1)
        is_kind = (counts == 1, counts > 1, counts == 0)
        shares = sum(
            part * kind / kind.sum() for part, kind in zip((3, 1, 1), is_kind, strict=True)
        )
        return np.asarray(shares / np.sum(shares), np.float32)


def all_sentences() -> Sentences:
    """Return every phrase in every frame."""
    phrases = {**_single_digit_phrases(), **_other_phrases()}
    texts = tuple(frame.format(phrase) for frame in FRAMES for phrase in phrases)
    true_of = [np.isin(np.arange(DIGIT_CLASSES), digits) for digits in phrases.values()]
    row_of = {text: number for number, text in enumerate(texts)}
    digit_rows = [
        [row_of[frame.format(form.format(word))] for word in words]
        for frame in FRAMES
        for form in FORMS
        for words in WORDS_OF_DIGITS
    ]
    return Sentences(texts, np.tile(true_of, (len(FRAMES), 1)), np.array(digit_rows))


def _single_digit_phrases() -> dict[str, list[int]]:
    """Return the phrases about one digit, with the digit."""
    return {
        form.format(word): [digit]
        for form in FORMS
        for words in WORDS_OF_DIGITS
        for digit, word in enumerate(words)
    }


def _other_phrases() -> dict[str, list[int]]:
    """Return the phrases about several digits or none, with the digits of which they are true."""
    digits = range(DIGIT_CLASSES)
    phrases: dict[str, list[int]] = {phrase: [] for phrase in OTHER_PHRASES}
    for noun in NOUNS:
        phrases |= {f"an even {noun}": [*digits[::2]], f"an odd {noun}": [*digits[1::2]]}
        phrases[f"a {noun}"] = [*digits]
    for words in WORDS_OF_DIGITS:
        for digit, word in enumerate(words):
            phrases[f"not {word}"] = [other for other in digits if other != digit]
            for noun in NOUNS:
                phrases[f"a {noun} less than {word}"] = [*digits[:digit]]
                phrases[f"a {noun} greater than {word}"] = [*digits[digit + 1 :]]
    return phrases
