"""Leaving at once, on Ctrl-C or when somebody ends the process."""

import multiprocessing
import os
import signal
import sys
from types import FrameType

from zoo.files.staging import discard

INTERRUPTION = "interrupted; nothing unfinished was put in place"


def stop(number: int, frame: FrameType | None) -> None:
    """Leave at once, with what is staged removed and the workers told to do the same."""
    # Raising here is not enough: an exception that arrives inside a destructor is dropped.
    for child in multiprocessing.active_children():
        child.terminate()
    discard()
    if number == signal.SIGINT:
        print(INTERRUPTION, file=sys.stderr, flush=True)
    os._exit(128 + number)
