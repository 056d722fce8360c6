"""Settings of the process that are changed while blocks run. The blocks may overlap."""

from collections.abc import Callable
from threading import Lock


class SharedSetting:
    """Context manager that changes a setting of the process while at least one block runs.

    Blocks may run in several threads and end in any order. The last one restores the setting.
    """

    def __init__(self, change: Callable[[], Callable[[], object]]):
        """**Arguments:**

        - `change`: a function that changes the setting. It returns a function that restores it.
        """
        self._change = change
        self._lock, self._blocks = Lock(), 0
        self._restore: Callable[[], object] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                self._restore = self._change()
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._restore()
