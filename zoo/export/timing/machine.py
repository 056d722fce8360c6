"""The machine that something is measured on: what it is, and what else it does meanwhile."""

import os
import platform
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
STAT = Path("/proc/stat")


def machine() -> str:
    """Processor, number of cores, and operating system."""
    processors = CPUINFO.read_text() if CPUINFO.exists() else ""
    named = re.search(r"model name\s*:\s*(.+)", processors)
    processor = named[1].strip() if named else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}"


def watch_others() -> Callable[[], float | None]:
    """Begin to watch what other programs do.

    **Returns** a function that says how many cores they kept busy since then, on average; None
    where the system does not tell. A hypervisor that takes processors away counts as one of them.
    """
    before, began = _others_seconds(), time.perf_counter()

    def others() -> float | None:
        after, elapsed = _others_seconds(), time.perf_counter() - began
        if before is None or after is None or elapsed <= 0:
            return None
        return max(0.0, (after - before) / elapsed)

    return others


def _others_seconds() -> float | None:
    """Of processor time since the machine started, without that of this process and of children
    that have ended. Source: `man 5 proc_stat`."""
    if sys.platform == "win32" or not STAT.exists():
        return None
    ticks = [int(field) for field in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    if not any(ticks):
        return None
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
