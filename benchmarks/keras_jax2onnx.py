"""A network of Keras through jax2onnx, for comparison, in an environment that has both.

python benchmarks/keras_jax2onnx.py NAME SIZE FILE
"""

import sys

from jax2onnx import to_onnx
from keras_seeded import network

OPSET = 23


def main() -> None:
    name, size, file = sys.argv[1:]
    model = network(name, int(size))
    shape = ("B", int(size), int(size), 3)
    to_onnx(
        lambda x: model(x, training=False),
        inputs=[shape],
        opset=OPSET,
        return_mode="file",
        output_path=file,
    )


if __name__ == "__main__":
    main()
