"""onnxruntime-web: ONNX Runtime's kernels as WebAssembly.

1.30.0 runs ViT-S/16 in the same time with either layout of attention and at opset 18 (313, 316 and
316 ms on one thread). It gets 4-D attention, which most other importers of files need. On WebGPU it
sums exponentials without a shift (`reduce.ts` of its sources), so that they overflow.
"""

from dataclasses import replace

from converter.opsets import WEB_RELEASE
from converter.targets.onnxruntime import TARGET as ONNXRUNTIME
from converter.targets.target import lacks_operators

LACKS = (*ONNXRUNTIME.lacks, lacks_operators("ReduceLogSumExp"))
TARGET = replace(ONNXRUNTIME, name="web", attention_layout="4d", oldest=WEB_RELEASE, lacks=LACKS)
