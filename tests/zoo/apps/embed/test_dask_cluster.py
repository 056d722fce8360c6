"""The scheduler of a Dask cluster; test_stopped.py runs `zoo embed` on the workers of one."""

import pytest

from zoo.apps.embed.dask_cluster import connect
from zoo.common.errors import BadRequest


@pytest.mark.full
def test_a_scheduler_that_does_not_answer():
    with pytest.raises(BadRequest, match="does not answer"), connect("tcp://127.0.0.1:1"):
        pass
