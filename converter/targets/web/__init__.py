"""The target onnxruntime-web, which runs the kernels of ONNX Runtime as WebAssembly.

Version 1.30.0 takes the same time for ViT-S/16 with both layouts of attention and at opset 18 (313,
316 and 316 ms on one thread). The 4-D layout is used, because most other importers of files need
it. On WebGPU the logarithm of a sum of exponentials is computed without a shift (`reduce.ts` of its
sources), so that the exponentials may overflow.
"""

from dataclasses import replace

from converter.opsets import WEB_RELEASE
from converter.targets.onnxruntime import TARGET as ONNXRUNTIME
from converter.targets.target import lacks_operators

LACKS = (*ONNXRUNTIME.lacks, lacks_operators("ReduceLogSumExp"))
TARGET = replace(ONNXRUNTIME, name="web", attention_layout="4d", oldest=WEB_RELEASE, lacks=LACKS)
