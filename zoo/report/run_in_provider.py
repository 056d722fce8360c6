"""Run a file in one execution provider, which needs numpy and ONNX Runtime and no more.

    python run_in_provider.py FILE PROVIDER INPUTS.npz OUTPUTS.npz

Writes a line of JSON: the providers that the session has, the nodes of each where ONNX Runtime
tells (1.24 and newer), the seconds of loading it and of a run in the middle.
"""

import json
import statistics
import sys
import time

import numpy as np
import onnxruntime

CPU = "CPUExecutionProvider"
RUNS, SECONDS = 20, 5.0
RECORDED = "session.record_ep_graph_assignment_info"

file, provider, inputs, outputs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.add_session_config_entry(RECORDED, "1")
began = time.perf_counter()
session = onnxruntime.InferenceSession(
    file, options, providers=list(dict.fromkeys([provider, CPU])), enable_fallback=0
)
feeds = dict(np.load(inputs))
results = session.run(None, feeds)
loaded = time.perf_counter() - began
times: list[float] = []
while len(times) < RUNS and sum(times) < SECONDS:
    began = time.perf_counter()
    session.run(None, feeds)
    times.append(time.perf_counter() - began)
names = [output.name for output in session.get_outputs()]
np.savez(outputs, **dict(zip(names, results, strict=True)))
told = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 24)
parts = session.get_provider_graph_assignment_info() if told else []
nodes: dict[str, int] = {}
for part in parts:
    nodes[part.ep_name] = nodes.get(part.ep_name, 0) + len(part.get_nodes())
found = {"providers": session.get_providers(), "nodes": nodes}
sys.stdout.write(json.dumps({**found, "load": loaded, "run": statistics.median(times)}))
