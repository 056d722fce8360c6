"""Measure the export and verification of a model that is larger than memory.

python benchmarks/large.py [LIMIT_IN_GB] [OPTIONS OF zoo export] python benchmarks/large.py 2
dinov3_vith16plus python benchmarks/large.py 4 dinov3_vit7b16 --size 64x96 --batch 1 --out
/somewhere/with/27/GB

Weights are random unless `--weights` names others. The files are deleted unless `--out` is given.
The memory of the process itself is limited (`prlimit --data`). Pages of mapped files do not count,
because the system can drop them when memory is needed. Linux only.
"""

import resource
import subprocess
import sys
import tempfile
import time


def main() -> None:
    limit, *options = sys.argv[1:] or ("2", "dinov3_vith16plus")
    size = int(float(limit) * 1e9)
    if "--weights" not in options:
        options += ["--weights", "random"]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        if "--out" not in options:
            options += ["--out", folder]
        began = time.perf_counter()
        process = subprocess.run(
            [sys.executable, "-m", "zoo", "export", *options],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size)),
        )
        seconds = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{seconds:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processors; at most", end=" "
    )
    print(f"{1024 * usage.ru_maxrss / 1e6:,.0f} MB, pages of mapped files among them")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
