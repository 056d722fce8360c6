"""What can be wrong with weights. Each message: what was wrong, what was received, what to do."""


class Sentence(Exception):
    """One sentence, on one line whatever names of files are in it."""

    def __str__(self) -> str:
        return super().__str__().replace("\n", "\\n")


class WeightsError(Sentence):
    """Base of everything that this package raises about its input."""


class WeightsNotFound(WeightsError):
    """No file there."""


class NotACheckpoint(WeightsError):
    """The file is not one of the formats that are read."""


class DamagedFile(NotACheckpoint):
    """Fault of a file, in a few words; `files.sound` makes a sentence of them."""


class UnsafeCheckpoint(WeightsError):
    """Reading the file would run code that it brings along."""


class WrongDigest(WeightsError):
    """The file is not the one whose digest was recorded."""


class Unreachable(WeightsError):
    """The hub did not give the file: no network, no permission, no such file."""


class MappingError(WeightsError):
    """The tensors of a file do not cover the model exactly."""


class BadValues(WeightsError):
    """A tensor's values cannot be meant as weights."""
