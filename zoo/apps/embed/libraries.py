"""Libraries of the extra `[embed]`."""

from importlib.util import find_spec

from zoo.common.errors import MissingLibrary


def need_library(library: str) -> None:
    """**Raises** `MissingLibrary` where one of the extra `[embed]` is not installed."""
    if find_spec(library) is None:
        raise MissingLibrary(f"{library} is not installed: `pip install fsspec pyarrow pylance`.")
