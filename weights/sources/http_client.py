"""The HTTP client of huggingface-hub: httpx2 since its version 2, httpx before."""

from functools import cache
from types import ModuleType


@cache
def http_client() -> ModuleType:
    """Return the module of the HTTP client. It is imported on the first call, because that is
    slow."""
    from huggingface_hub import __version__

    if int(__version__.partition(".")[0]) >= 2:
        import httpx2

        return httpx2
    import httpx  # type: ignore[import-not-found]

    return httpx


def request_errors(*extra_errors: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the types of errors that a request may raise, including those of huggingface-hub,
    together with `extra_errors`."""
    return OSError, http_client().HTTPError, *extra_errors


def is_timeout(error: BaseException) -> bool:
    """Return True if the error says that a server did not answer in time."""
    return isinstance(error, http_client().TimeoutException)
