"""Describe models in words, for model cards and for the terminal."""

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo


def describe_purpose(entry: ModelInfo) -> str:
    """Return a sentence that says what a model is for, to people who do not know how it is
    built."""
    config = entry.config
    # A class may have several names. A class without a name has its number.
    names = [name.partition(",")[0] for name in entry.class_names[:3]]
    has_names = not "".join(names).isdecimal()
    return entry.purpose or config.task.purpose.format(
        stride=config.stride,
        classes=config.classes,
        whole=" and one for the whole" if entry.pooler else "",
        such=f", such as {names[0]}, {names[1]} or {names[2]}" if names[2:] and has_names else "",
    )


def describe_positions(config: Config) -> str:
    """Return in words the size of images for which a model has learned positions, or `any size` if
    it has none."""
    if (sides := config.native_size) is None:
        return "any size"
    return f"learned at {sides[0]} x {sides[1]}, interpolated for any other size"
