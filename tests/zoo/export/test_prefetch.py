"""`prefetching`: results in order, errors raised by `results()`, and tasks that are left out."""

import threading
import time
import weakref
from functools import partial

import pytest

from zoo.common.prefetch import prefetching


def test_results_in_order():
    with prefetching([partial(pow, number, 2) for number in range(5)]) as results:
        assert results() == results() == [0, 1, 4, 9, 16]
    with prefetching([threading.current_thread] * 2) as results:
        assert len({threading.current_thread(), *results()}) == 2
    with prefetching([lambda: 1 / 0]) as results, pytest.raises(ZeroDivisionError):
        results()


def test_tasks_after_an_error_are_not_started():
    started, completed = threading.Event(), []

    def first():
        started.set()
        time.sleep(0.1)
        completed.append(1)

    with pytest.raises(KeyError), prefetching([first, lambda: completed.append(2)]):
        started.wait(10)
        raise KeyError
    assert completed == [1]


def test_arguments_of_tasks_are_released():
    large = {"a set can have weak references"}
    reference = weakref.ref(large)
    with prefetching([partial(id, large)]) as results:
        del large
        results()
        assert reference() is None
