"""The errors of the converter. Every message explains what was wrong, what was received, and what
to do."""


class ConverterError(Exception):
    """Base class of the converter's errors."""


class SpecError(ConverterError, ValueError):
    """Error for an argument that cannot be used, such as a spec, a name or an option of
    ``to_onnx``."""


class UnsupportedError(ConverterError, NotImplementedError):
    """Error for an operation that cannot be converted: it has no rule at the requested opset, or
    not for these parameters, shapes or dtypes.

    ``reason`` is the message without the source line. ``line`` is the line of the user's source
    that the operation comes from, or "" if it is unknown. The text of the error is ``reason
    [line]``.
    """

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"{reason} [{line}]" if line else reason)
        self.reason, self.line = reason, line


class CheckError(ConverterError, ValueError):
    """Error for a file that computes other results than JAX, or for a comparison that is not
    possible.

    For example, the number, names, shapes or dtypes of the inputs do not match those of the file.
    """


class SaveError(ConverterError, OSError):
    """Error for a file that cannot be written.

    ``errno`` and ``strerror`` are those of the operating system's error, or None if there was none.
    The text of the error is its first argument.
    """

    def __str__(self) -> str:
        return str(self.args[0])
