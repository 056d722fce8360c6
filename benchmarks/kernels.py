"""The time of each operator's kernels, as ONNX Runtime's profile has it."""

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort


def session(model: bytes | Path, threads: int, prefix: Path) -> ort.InferenceSession:
    """A session whose kernels are timed."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.enable_profiling, options.profile_file_prefix = True, str(prefix)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def kernels(profile: Path) -> Mapping[str, float]:
    """The sum of the fastest milliseconds of each node, by operator."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in json.loads(profile.read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["args"]["op_name"], event["name"]].append(event["dur"] / 1e3)
    found: dict[str, float] = defaultdict(float)
    for (operator, _), each in times.items():
        found[operator] += min(each)
    return found


def profiled(
    files: Mapping[str, Path], threads: int, rounds: int, pixels: np.ndarray
) -> dict[str, dict[str, float]]:
    """Of files that take ``pixels`` by turns; the slowest operator of each first."""
    with tempfile.TemporaryDirectory() as folder:
        live = {
            name: session(file, threads, Path(folder) / "profile") for name, file in files.items()
        }
        for _ in range(rounds):
            for each in live.values():
                each.run(None, {each.get_inputs()[0].name: pixels})
        found = {name: kernels(Path(each.end_profiling())) for name, each in live.items()}
    return {
        name: {kind: round(time, 3) for kind, time in sorted(kinds.items(), key=lambda x: -x[1])}
        for name, kinds in found.items()
    }
