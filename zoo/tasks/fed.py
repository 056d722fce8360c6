"""What a network was given of a picture."""

from typing import NamedTuple

Size = tuple[int, int]  # (height, width)


class Fed(NamedTuple):
    """(height, width) of a network's input, and whether that was padded."""

    size: Size
    padded: bool


def size_inside(image: Size, size: Size) -> Size:
    """The largest of an image's proportions that fits into `size`, of a pixel at least.

    Source: `get_size_with_aspect_ratio` of transformers, in whose arithmetic the longer side may
    come to a pixel less.
    """
    (height, width), (tall, wide) = image, size
    if height * wide > width * tall:
        exact = tall * width / height
        return int(exact * height / width), max(1, round(exact))
    exact = wide * height / width
    return max(1, round(exact)), int(exact * width / height)
