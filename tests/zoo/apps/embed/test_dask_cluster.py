"""The scheduler of a Dask cluster; test_stopped.py runs `zoo embed` on the workers of one."""

import pytest

from zoo.apps.embed.workers import cluster_workers
from zoo.common.errors import BadRequest


@pytest.mark.full
def test_a_scheduler_that_does_not_answer():
    workers = cluster_workers("tcp://127.0.0.1:1", recipe=None)
    with pytest.raises(BadRequest, match="does not answer"), workers:
        pass
