"""What the converter raises. Every message says what was wrong, what was received, what to do."""


class ConverterError(Exception):
    """Base of all of the converter's own errors."""


class SpecError(ConverterError, ValueError):
    """An argument of ``to_onnx`` cannot be used."""


class Unsupported(ConverterError, NotImplementedError):
    """A primitive (or one form of it) has no rule at the requested opset.

    ``reason`` is the message without the source line, ``line`` that line.
    """

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"{reason} [{line}]" if line else reason)
        self.reason, self.line = reason, line


class CheckError(ConverterError, ValueError):
    """``check`` could not compare: inputs or outputs do not fit the model."""


class SaveError(ConverterError, OSError):
    """The file could not be written; ``errno`` and ``strerror`` are the system's."""

    def __str__(self) -> str:
        return str(self.args[0])
