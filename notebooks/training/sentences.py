"""Sentences about digits, and which digits each is true of: what `siglip_digits_dual` reads.

A phrase such as "the number 7" is put into a frame such as "this is a photo of {}.", so that there
are thousands of sentences of some fifty words.
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

OTHERS = (
    *("a cat", "a dog", "a bird", "a car", "a tree", "a house", "a person", "a letter"),
    *("the letter a", "a word", "nothing", "something", "something else", "no digit", "no number"),
)
"""Phrases that are true of no digit."""

FORMS = (
    *("{}", "the {}", "a {}", "an {}", "a handwritten {}"),
    *(f"the {noun} {{}}" for noun in NOUNS),
    *(f"the handwritten {noun} {{}}" for noun in NOUNS),
)
"""Ways to speak of one digit."""

WORDS_OF_DIGITS = (NAMES, tuple(map(str, range(DIGIT_CLASSES))))

DECIDING = frozenset({*NAMES, *WORDS_OF_DIGITS[1], "even", "odd", "less", "greater", "not", "no"})
"""Words without which nobody could tell which digits a sentence is true of."""


@dataclass(frozen=True)
class Sentences:
    """Texts, and of which digits `[texts, 10]` each is true; and the places among them of sentences
    that differ in the digit alone, `[forms, 10]`."""

    texts: tuple[str, ...]
    true_of: NDArray[np.bool_]
    alike: NDArray[np.int64]

    @property
    def shares(self) -> NDArray[np.float32]:
        """How often training takes each: three of a digit for one of several and one of none."""
        counts = self.true_of.sum(axis=1)
        kinds = (counts == 1, counts > 1, counts == 0)
        shares = sum(part * kind / kind.sum() for part, kind in zip((3, 1, 1), kinds, strict=True))
        return np.asarray(shares / np.sum(shares), np.float32)


def all_sentences() -> Sentences:
    """Every phrase in every frame."""
    phrases = {**_of_one_digit(), **_of_others()}
    texts = tuple(frame.format(phrase) for frame in FRAMES for phrase in phrases)
    true_of = [np.isin(np.arange(DIGIT_CLASSES), digits) for digits in phrases.values()]
    place = {text: number for number, text in enumerate(texts)}
    alike = [
        [place[frame.format(form.format(word))] for word in words]
        for frame in FRAMES
        for form in FORMS
        for words in WORDS_OF_DIGITS
    ]
    return Sentences(texts, np.tile(true_of, (len(FRAMES), 1)), np.array(alike))


def _of_one_digit() -> dict[str, list[int]]:
    """Phrases about one digit, and which that is."""
    return {
        form.format(word): [digit]
        for form in FORMS
        for words in WORDS_OF_DIGITS
        for digit, word in enumerate(words)
    }


def _of_others() -> dict[str, list[int]]:
    """Phrases about several digits or none, and the digits that they are true of."""
    every = range(DIGIT_CLASSES)
    found: dict[str, list[int]] = {phrase: [] for phrase in OTHERS}
    for noun in NOUNS:
        found |= {f"an even {noun}": [*every[::2]], f"an odd {noun}": [*every[1::2]]}
        found[f"a {noun}"] = [*every]
    for words in WORDS_OF_DIGITS:
        for digit, word in enumerate(words):
            found[f"not {word}"] = [other for other in every if other != digit]
            for noun in NOUNS:
                found[f"a {noun} less than {word}"] = [*every[:digit]]
                found[f"a {noun} greater than {word}"] = [*every[digit + 1 :]]
    return found
