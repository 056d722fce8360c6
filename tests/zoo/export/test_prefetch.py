"""Work in a thread: its results in order, its errors for who asks, and none that nobody awaits."""

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


def test_what_has_not_begun_is_left_out():
    begun, done = threading.Event(), []

    def first():
        begun.set()
        time.sleep(0.1)
        done.append(1)

    with pytest.raises(KeyError), prefetching([first, lambda: done.append(2)]):
        begun.wait(10)
        raise KeyError
    assert done == [1]


def test_what_tasks_hold_is_let_go_of():
    large = {"a set, which weak references may be made to"}
    seen = weakref.ref(large)
    with prefetching([partial(id, large)]) as results:
        del large
        results()
        assert seen() is None
