"""The errors of the converter. Every message says what was wrong, what was received, and what to
do."""


class ConverterError(Exception):
    """Base class of the converter's errors."""


class SpecError(ConverterError, ValueError):
    """Error for an argument of ``to_onnx`` that cannot be used."""


class UnsupportedError(ConverterError, NotImplementedError):
    """Error for a primitive, or a form of it, that has no rule at the requested opset.

    ``reason`` is the message without the source line, ``line`` is that line.
    """

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"{reason} [{line}]" if line else reason)
        self.reason, self.line = reason, line


class CheckError(ConverterError, ValueError):
    """Error for a file that is not verified, or cannot be compared because inputs or outputs do not
    fit."""


class SaveError(ConverterError, OSError):
    """Error for a file that cannot be written. ``errno`` and ``strerror`` are those of the
    system."""

    def __str__(self) -> str:
        return str(self.args[0])
