"""How fast the variants of a folder are, beside each other."""

from collections.abc import Mapping
from pathlib import Path

from zoo.artifacts.measured import Speeds
from zoo.common import runtime
from zoo.export.assemble.plan import VARIANTS
from zoo.export.network_inputs import Inputs
from zoo.export.timing.rounds import (
    affordable,
    interleave,
    machine,
    run_once,
    speeds_beside,
    watch_others,
)


def speeds(
    files: Mapping[str, Path],
    fed: Inputs,
    sessions: Mapping[str, runtime.Session],
) -> Speeds:
    """p50 of a run on one sample, and how many times faster than `fp32` that is.

    Rounds are interleaved, so that a change of the machine's speed meets all alike. Variants
    without kernels on a CPU are left out. `sessions` are those that there are already.
    """
    tasks = {}
    for name, path in files.items():
        if VARIANTS[name].precision != "bf16":
            live = sessions.get(name) or runtime.session(path)
            tasks[name] = run_once(live, fed)
    rounds = affordable(tasks.values())
    others = watch_others()
    times = interleave(tasks, rounds)
    taken = others()
    return Speeds(
        runtime=f"{runtime.VERSION}, CPU, all cores",
        machine=machine(),
        others=None if taken is None else round(taken, 2),
        input=next(iter(fed.values())).shape,
        rounds=rounds,
        variants=speeds_beside(times, "fp32"),
    )
