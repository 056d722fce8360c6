"""Errors about weights. Each message says what was wrong, what was received and what to do."""


class Sentence(Exception):
    """Error whose message is one line: line breaks in file names are escaped."""

    def __str__(self) -> str:
        return super().__str__().replace("\n", "\\n")


class WeightsError(Sentence):
    """Base class of all errors that this package raises about its input."""


class WeightsNotFound(WeightsError):
    """No file exists at the path, or the file cannot be read."""


class NotACheckpoint(WeightsError):
    """The file is not a checkpoint in a supported format."""


class DamagedFile(NotACheckpoint):
    """The content of a file is invalid. The message is a phrase, such as "it ends too early", which
    `files.translate_damage` completes to a sentence."""


class UnsafeCheckpoint(WeightsError):
    """Reading the file would run code that is in the file."""


class WrongDigest(WeightsError):
    """The digest of the file differs from the recorded one."""


class Unreachable(WeightsError):
    """The hub did not return the file: there is no network, no permission, or no such file."""


class MappingError(WeightsError):
    """The tensors of a file do not match the leaves of the model."""


class BadValues(WeightsError):
    """The values of a tensor are not valid weights."""
