"""Run a file once in another installation of ONNX Runtime. It needs only numpy in addition.

    python run_elsewhere.py FILE INPUTS.npz OUTPUTS.npz

Without arguments the program prints the version.
"""

import sys

import numpy as np
import onnxruntime

if len(sys.argv) == 1:
    sys.stdout.write(onnxruntime.__version__)
else:
    file, inputs, outputs = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results = session.run(None, dict(np.load(inputs)))
    np.savez(outputs, **dict(zip(names, results)))  # noqa: B905
