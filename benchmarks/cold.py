"""How long the main command takes from a cold start, and how much memory, beside bare imports.

    python benchmarks/cold.py [ROUNDS]

Every round runs each program once, in turn; the fastest run and the largest peak are reported.
"""

import os
import subprocess
import sys
import tempfile
import time

PROGRAMS = {
    "import jax, onnx_ir": ["-c", "import jax, onnx_ir"],
    "import converter": ["-c", "import converter"],
    "import converter; converter.to_onnx": ["-c", "import converter; converter.to_onnx"],
    "import jax, equinox, onnx_ir": ["-c", "import jax, equinox, onnx_ir"],
    "zoo.export dinov3_vits16 --no-verify": [
        *("-m", "zoo.export", "dinov3_vits16", "--weights", "random", "--no-verify", "--force"),
    ],
    "import zoo": ["-c", "import zoo"],
    "zoo list": ["-m", "zoo", "list"],
}


def measure(arguments: list[str], folder: str) -> tuple[float, float]:
    """Seconds and megabytes of one run."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed ({status}): run it by hand.")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, arguments in PROGRAMS.items():
                runs[name].append(measure(arguments, folder))
    for name, found in runs.items():
        seconds, memory = min(found)[0], max(peak for _, peak in found)
        print(f"{name:<40} {seconds:6.2f} s {memory:7.0f} MiB")


if __name__ == "__main__":
    main()
