"""How long a model that is larger than memory takes to export and verify, and how much it takes.

    python benchmarks/large.py [LIMIT_IN_GB] [OPTIONS OF zoo export]
    python benchmarks/large.py 2 dinov3_vith16plus
    python benchmarks/large.py 4 dinov3_vit7b16 --size 64x96 --batch 1 --out /somewhere/with/27/GB

Random weights unless others are named; the files are removed unless --out says where to. The
process may have no more than the limit of memory of its own (`prlimit --data`): pages of a mapped
file are the system's, which drops them where others need the room. Linux only.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAUSE = 0.05
FIELDS = ("RssAnon", "VmData", "VmHWM")


def main() -> None:
    limit, *options = sys.argv[1:] or ("2", "dinov3_vith16plus")
    size = int(float(limit) * 1e9)
    if "--weights" not in options:
        options += ["--weights", "random"]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        if "--out" not in options:
            options += ["--out", folder]
        command = [sys.executable, "-m", "zoo", "export", *options]
        began = time.perf_counter()
        with subprocess.Popen(
            command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        ) as process:
            peaks = watch(process)
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = ", ".join(f"{name} {peak / 1e6:,.0f} MB" for name, peak in peaks.items())
    print(f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors; at most {told}")
    sys.exit(process.returncode)


def watch(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The most that a process has, by the names that Linux gives it; `VmHWM` has pages of files."""
    peaks = dict.fromkeys(FIELDS, 0)
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        for line in status.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in peaks:
                peaks[name] = max(peaks[name], 1024 * int(value.split()[0]))
        time.sleep(PAUSE)
    return peaks


if __name__ == "__main__":
    main()
