"""Describe models in words, for model cards and for the terminal."""

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.images.preprocessing import Preprocessing


def purpose(entry: ModelInfo) -> str:
    """Return the purpose of a model, in a sentence for people who do not know how it is built."""
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


def preprocessing_words(preprocessing: Preprocessing) -> str:
    """Describe the steps from a photograph to `pixel_values`."""
    height, width = preprocessing.size
    target = f"{height} x {width}"
    if isinstance(preprocessing.resize, tuple):
        target = (
            f"{preprocessing.resize[0]} x {preprocessing.resize[1]}, "
            f"{target} cropped from the centre"
        )
    elif preprocessing.resize is not None:
        target = f"a shorter edge of {preprocessing.resize}, {target} cropped from the centre"
    elif preprocessing.padded:
        target = f"what fits into {target}, with black at the right and bottom edge"
    bits = "" if preprocessing.rescale_first else ", in 8 bits"
    resized = f"resized to {target} ({preprocessing.resample}, antialiased{bits})"
    return f"RGB / 255, {resized}, mean {preprocessing.mean}, std {preprocessing.std}"


def position_words(config: Config) -> str:
    """Describe the image sizes for which a model has learned positions of patches."""
    if (sides := config.native) is None:
        return "any size"
    return f"learned at {sides[0]} x {sides[1]}, interpolated for any other size"
