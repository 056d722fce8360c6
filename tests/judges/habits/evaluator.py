"""The evaluator that comes with the standard, `onnx.reference`: numpy, to be read, not fast."""

import numpy as np

from tests.judges.habits import Habit
from tests.judges.habits.arrays import INF, NAN, f32

VERSIONS = ("1.23.2",)

HABITS = {
    "Other numbers": [
        Habit(
            "A loop without a condition",
            "g (float[1] x) => (float[1] y) { m = Constant <value_int=3> () y = Loop <body = b "
            "(int64 i, bool go, float[1] u) => (bool on, float[1] w) "
            '{ on = Identity (go) w = Add (u, u) }> (m, "", x) }',
            [f32([1])],
            [f32([8])],
            [f32([1])],
            "the condition may be left out; the evaluator then does not begin",
            "writes a condition that is true",
        ),
        Habit(
            "Scalars that a loop collects",
            "g (float x) => (float[3] y) { m = Constant <value_int=3> () "
            "one = Constant <value_int=1> () c = Cast <to=9> (one) z, y = Loop <body = b "
            "(int64 i, bool go, float u) => (bool on, float w, float s) "
            "{ on = Identity (go) w = Add (u, u) s = Identity (u) }> (m, c, x) }",
            [f32(1)],
            [f32([1, 2, 4])],
            [f32([[1], [2], [4]])],
            "one axis in front of a scalar's none; there are two",
            "nothing",
        ),
        Habit(
            "The square root of minus infinity as a power",
            "g (float[1] x) => (float[1] y) { c = Constant <value_float=0.5> () y = Pow (x, c) }",
            [f32([-INF])],
            [f32([INF])],
            [f32([NAN])],
            "does not say; IEEE 754's pow, XLA and ONNX Runtime give infinity",
            "nothing: numpy takes the root",
        ),
    ],
    "Refused": [
        Habit(
            "Negative padding",
            "g (float[3] x) => (float[2] y) { p = Constant <value_ints=[-1,0]> () y = Pad (x, p) }",
            [f32([1, 2, 3])],
            [f32([2, 3])],
            "index can't contain negative values",
            "negative numbers remove elements",
            "nothing: our tests complete the evaluator",
        ),
        Habit(
            "Scanning from the end",
            "g (float[2] x) => (float[2] y) { y = Scan <num_scan_inputs=1, "
            "scan_input_directions=[1], scan_output_directions=[1], "
            "body = s (float i) => (float w) { w = Add (i, i) }> (x) }",
            [f32([1, 2])],
            [f32([2, 4])],
            "Scan is not implemented",
            "directions may be 1",
            "nothing",
        ),
        Habit(
            "Transposed convolutions with several kernels a group",
            "g (float[1,4,3] x, float[4,3,2] w) => (float[1,6,4] y) "
            "{ y = ConvTranspose <group=2> (x, w) }",
            [np.ones((1, 4, 3), np.float32), np.ones((4, 3, 2), np.float32)],
            [np.broadcast_to(f32([2, 4, 4, 2]), (1, 6, 4))],
            "cannot reshape array",
            "any number of kernels a group",
            "nothing",
        ),
    ],
}
