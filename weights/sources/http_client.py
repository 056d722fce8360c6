"""The HTTP client of huggingface-hub: httpx2 from its version 2 on, httpx before."""

from functools import cache
from types import ModuleType


@cache
def http_client() -> ModuleType:
    """The module of the client; importing it takes longer than most commands."""
    from huggingface_hub import __version__

    if int(__version__.partition(".")[0]) >= 2:
        import httpx2

        return httpx2
    import httpx  # type: ignore[import-not-found]

    return httpx


def request_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Errors that a request may raise, those of the hub's library included, and others."""
    return OSError, http_client().HTTPError, *others


def is_timeout(error: BaseException) -> bool:
    """Whether a server did not answer in time."""
    return isinstance(error, http_client().TimeoutException)
