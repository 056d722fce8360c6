"""The machine that something is measured on, in words."""

import os
import platform
import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Processor, number of cores, and operating system."""
    told = CPUINFO.read_text() if CPUINFO.exists() else ""
    named = re.search(r"model name\s*:\s*(.+)", told)
    processor = named[1].strip() if named else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}"
