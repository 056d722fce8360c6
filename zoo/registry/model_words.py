"""What models are, in words: for cards and for the terminal."""

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo


def purpose(entry: ModelInfo) -> str:
    """Purpose of a model, in a sentence for people who know nothing of how it is built."""
    config = entry.config
    # A class may have several names, and one that nobody named has its number.
    names = [name.partition(",")[0] for name in entry.class_names[:3]]
    named = not "".join(names).isdecimal()
    return entry.purpose or config.task.purpose.format(
        stride=config.stride,
        classes=config.classes,
        whole=" and one for the whole" if entry.pooler else "",
        such=f", such as {names[0]}, {names[1]} or {names[2]}" if names[2:] and named else "",
    )


def position_words(config: Config) -> str:
    """At which sizes a model knows where patches are, in words."""
    if (sides := config.native) is None:
        return "any size"
    return f"learned at {sides[0]} x {sides[1]}, interpolated for any other size"
