"""ONNX Runtime on a CPU."""

import numpy as np

from converter.targets import TARGETS
from tests.judges.habits import DIES, Arrays, Habit
from tests.judges.habits.arrays import (
    INF,
    LOWEST,
    NAN,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
    truth,
    u8,
    u32,
    u64,
)

VERSIONS = ("1.31.1", "1.32.0")

SMALL_INTEGERS = "computes in a wider type and converts back, which wraps as JAX does"
OPEN_NAN = "leaves open what becomes of NaN; JAX returns it"
EXACTNESS = "differs from JAX by default where exactness costs: `docs/exactness.md`"

_NINE = i64([2**31, 1, 1, 1, 1, 1, 1, 1, 1])
_KEYS = f32([[[[1, 1], [1, 1], [1, 1]]]])
_VALUES = f32([[[[0, 1], [2, 3], [4, 5]]]])
_ROWS = np.repeat(f32([[[[0], [2], [6], [8]]]]), 8, 1)
_FILL = f32([[0, 0, 0], [LOWEST, LOWEST, LOWEST]])

QUIRKS = {quirk.name: quirk for quirk in TARGETS["onnxruntime"].quirks}


def _quirk(
    name: str, inputs: Arrays, right: Arrays, seen: Arrays | str, standard: str, ours: str
) -> Habit:
    """One that the converter avoids: its file and its versions are told there."""
    quirk = QUIRKS[name]
    versions = quirk.versions
    return Habit(name, quirk.example, inputs, right, seen, standard, ours, versions=versions)


NUMBERS = [
    _quirk(
        "A transposed matrix times a vector",
        [f32([[0, 1, 2], [3, 4, 5], [6, 7, 8]]), f32([0, 1, 2])],
        [f32([15, 18, 21])],
        [f32([5, 14, 23])],
        "numpy's `matmul`",
        "writes such a vector as a column, unless nothing computed the matrix: the optimiser also "
        "brings transpositions there from further up",
    ),
    Habit(
        "A window that is longer than its axis",
        "g (float[1,1,n] x) => (float[1,1,m] y) "
        "{ y = AveragePool <kernel_shape=[3], strides=[2]> (x) }",
        [f32([[[1, 3]]])],
        [np.zeros((1, 1, 0), np.float32)],
        [f32([[[2]]])],
        "no elements, since no window fits",
        "says that it may be so; a strict conversion writes slices where an axis of named size may "
        "be too short",
    ),
    _quirk(
        "A float64 product that is scaled",
        [np.ones((2, 2)), np.ones((2, 2))],
        [np.full((2, 2), 0.2)],
        [np.full((2, 2), np.float32(0.2), np.float64)],
        "the product with 0.1; the optimiser keeps a scale in float32, and an epsilon of a norm",
        "repeats such a number along an axis, where one has a known size",
    ),
    _quirk(
        "A padding in front of a pool of maxima",
        [f32([[[-1, -1, -1]]])],
        [f32([[[0, -1]]])],
        [f32([[[-1, -1]]])],
        "`Pad` writes zeros, which are larger than the rest; the optimiser makes it the pool's own "
        "padding, which does not count",
        "pads with -0.0, which the optimiser leaves where it is",
    ),
    _quirk(
        "Largest of many 64-bit integers",
        [_NINE],
        [i64(2**31)],
        [i64(1)],
        "the maximum; only the low halves are compared, as signed numbers",
        "takes uint32 through float64, which is exact, and the first of 64 bits sorted by TopK",
    ),
    Habit(
        "Attention of a row that a finite mask hides",
        "g (float[1,1,2,2] q, float[1,1,3,2] k, float[1,1,3,2] v, float[2,3] m) => "
        "(float[1,1,2,2] y) { y = Attention (q, k, v, m) }",
        [f32([[[[1, 1], [1, 1]]]]), _KEYS, _VALUES, _FILL],
        [f32([[[[2, 3], [2, 3]]]])],
        [f32([[[[2, 3], [0, 0]]]])],
        "the mask is added before the softmax: equal scores, the average",
        "fills with a number that is not the lowest one",
    ),
    Habit(
        "A chosen zero with its sign bit set",
        "g (bool[1] c, float[1] x, float[1] y) => (float[1] z) "
        "{ w = Where (c, x, y) z = Reciprocal (w) }",
        [truth([True]), f32([-0.0]), f32([1])],
        [f32([-INF])],
        [f32([INF])],
        "what is chosen, -0; a zero is taken from the last operand",
        "nothing: `docs/exactness.md`",
    ),
    _quirk(
        "GELU of a single number, spelled out",
        [f32(1)],
        [f32(-0.841192)],
        "Input 0 is expected to have 1 or more dimensions, got 0",
        "any tensor",
        "makes it an array of one number",
    ),
    Habit(
        "NaN in a LogSoftmax of float64",
        "g (double[2,3] x) => (double[2,3] y) { y = LogSoftmax <axis=-1> (x) }",
        [f64([[NAN, NAN, NAN], [NAN, 1, 1]])],
        [f64([[NAN, NAN, NAN], [NAN, NAN, NAN]])],
        [f64([[NAN, NAN, NAN], [NAN, 46.051701891615394, 46.051701891615394]])],
        "NaN, as of every sum with one",
        "writes it out for float64",
    ),
    _quirk(
        "Sigmoid of negative numbers",
        [f32([-17])],
        [f32([4.1399377e-08])],
        [f32([8.940697e-08])],
        "1 / (1 + exp(-x))",
        "leaves it, no more than 1e-7 absolute, unless strict: `docs/exactness.md`",
    ),
    _quirk(
        "Sign of 64-bit integers",
        [i64([2**31, -(2**31), 2**32])],
        [i64([1, -1, 1])],
        [i64([-1, -1, 1])],
        "1 where x > 0",
        "compares with zero instead",
    ),
    _quirk(
        "Sum of integers beyond their range",
        [i32([2**31 - 1, 1])],
        [i32(-(2**31))],
        [i32(2**31 - 1)],
        "does not say; the standard's evaluator and JAX wrap, ONNX Runtime saturates",
        "sums in int64 and converts back; ONNX Runtime adds in float64, so those of 64 bits are "
        "products with ones",
    ),
    _quirk(
        "Product of integers beyond their range",
        [i32([2**30, 4])],
        [i32(0)],
        [i32(2**31 - 1)],
        "does not say; the standard's evaluator and JAX wrap, ONNX Runtime saturates",
        "multiplies one half with the other until one is left",
    ),
    _quirk(
        "Remainder of 64-bit integers",
        [i64([2**62 + 1]), i64([7])],
        [i64([(2**62 + 1) % 7])],
        [i64([2**62 % 7])],
        "the remainder of integers; it is taken in doubles",
        "divides, multiplies and subtracts",
    ),
    Habit(
        "Power of integers",
        "g (int32[1] x, int32[1] p) => (int32[1] y) { y = Pow (x, p) }",
        [i32([3]), i32([21])],
        [i32([1870418611])],
        [i32([-(2**31)])],
        "does not say; the standard's evaluator and JAX wrap, ONNX Runtime goes through doubles",
        "multiplies instead, refuses an array of powers",
    ),
    Habit(
        "Pool of maxima of the lowest number",
        "g (float[1,1,3] x) => (float[1,1,2] y) { y = MaxPool <kernel_shape=[2]> (x) }",
        [f32([[[-INF, -INF, 2]]])],
        [f32([[[-INF, 2]]])],
        [f32([[[LOWEST, 2]]])],
        "the maximum of the window",
        EXACTNESS,
    ),
    Habit(
        "NaN in a maximum",
        "g (float[3] x) => (float y) { y = ReduceMax <keepdims=0> (x) }",
        [f32([3, NAN, 2])],
        [f32(NAN)],
        [f32(3)],
        OPEN_NAN,
        EXACTNESS,
        settled=False,
    ),
    Habit(
        "NaN in a pool of maxima",
        "g (float[1,1,3] x) => (float[1,1,2] y) { y = MaxPool <kernel_shape=[2]> (x) }",
        [f32([[[1, NAN, 2]]])],
        [f32([[[NAN, NAN]]])],
        [f32([[[1, 2]]])],
        OPEN_NAN,
        EXACTNESS,
        settled=False,
    ),
    Habit(
        "NaN among the largest",
        "g (float[3] x) => (float[2] y, int64[2] i) "
        "{ k = Constant <value_ints=[2]> () y, i = TopK (x, k) }",
        [f32([3, 2, NAN])],
        [f32([NAN, 3]), i64([2, 0])],
        [f32([3, 2]), i64([0, 1])],
        OPEN_NAN,
        EXACTNESS,
        settled=False,
        versions="<1.32",
    ),
    _quirk(
        "Floats that are rounded to infinity in eight bits",
        [f32([61440])],
        [f32([INF])],
        [f32([NAN])],
        "rounds to the nearest, infinity here; with `saturate=0` what is beyond stays so",
        "makes infinities of them before",
    ),
    Habit(
        "Floats beyond the range of integers",
        "g (float[3] x) => (uint8[3] y) { y = Cast <to=2> (x) }",
        [f32([306, -1, INF])],
        [u8([255, 0, 255])],
        [u8([50, 255, 0])],
        "leaves it open; XLA saturates",
        "clips before it converts",
        settled=False,
    ),
]
"""Other numbers, without a word."""

REFUSED = [
    _quirk(
        "The lowest integer divided by -1",
        [i32([-(2**31)]), i32([-1])],
        [i32([-(2**31)])],
        DIES,
        "integer division",
        "divides by 1 where the divisor is -1, or not by a variable",
    ),
    _quirk(
        "The remainder of the lowest integer by -1",
        [i32([-(2**31)]), i32([-1])],
        [i32([0])],
        DIES,
        "integer remainder",
        "takes the remainder by 1 instead, where the divisor may be -1",
    ),
    _quirk(
        "A product of a matrix that is turned and converted",
        [i32(np.ones((2, 3, 4))), f32(np.ones((4, 2)))],
        [f32(np.full((3, 2, 2), 4))],
        DIES,
        "numpy's `matmul`; the optimiser takes the transposition out and only then finds that it "
        "cannot join it with a product of operands of unequal rank. The runtime writes such "
        "conversions itself around products of float16",
        "gives both operands as many axes",
    ),
    _quirk(
        "A product of two turned matrices, one of them an output",
        [f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 1]]), f32([1])],
        [f32([[1, 4], [2, 5], [3, 6]]), f32([[6], [8], [10]])],
        "Failed to find node output",
        "numpy's `matmul`; the optimiser makes a Gemm of product and sum, takes both "
        "transpositions into it and loses the output",
        "multiplies such matrices as a stack of one, which does not become a Gemm",
    ),
    Habit(
        "A resizing between transpositions",
        "g (float[1,2,1,2] x) => (float[1,8,4,1] y) { a = Transpose <perm=[0,3,1,2]> (x) "
        "c = Concat <axis=1> (a, a) t = Transpose <perm=[0,3,1,2]> (c) "
        's = Constant <value_ints=[1,1,8,4]> () r = Resize <mode="linear"> (t, "", "", s) '
        "y = Transpose <perm=[0,2,3,1]> (r) }",
        [f32([[[[0, 0]], [[8, 8]]]])],
        [_ROWS],
        "'Linear' mode only supports",
        "two axes grow; the optimiser moves the transpositions behind it and has two others grow, "
        "for which there is no kernel",
        "nothing",
    ),
    Habit(
        "Integers divided by zero",
        "g (int32[1] x, int32[1] d) => (int32[1] y) { y = Div (x, d) }",
        [i32([5]), i32([0])],
        [i32([-1])],
        "Integer division by zero",
        "leaves it open; XLA gives -1",
        "divides by 1 instead and selects, unless the divisor is known not to be zero",
        settled=False,
    ),
    Habit(
        "A pool padded by as much as its window",
        "g (float[1,1,3] x) => (float[1,1,5] y) { y = MaxPool <kernel_shape=[1], pads=[1,1]> (x) }",
        [f32([[[1, 2, 3]]])],
        [f32([[[-INF, 1, 2, 3, -INF]]])],
        "Pad should be smaller than kernel",
        "does not forbid it; JAX gives minus infinity where a window holds padding alone",
        "pads in a node of its own",
        settled=False,
    ),
    Habit(
        "Newer files",
        "g (float[1] x) => (float[1] y) { y = Neg (x) }",
        [f32([1])],
        [f32([-1])],
        "max supported IR version: 13",
        "IR 14 is what onnx 1.23 writes unless told otherwise",
        "writes IR 8 to 11, by opset",
        ir_version=14,
        versions="<1.32",
    ),
    Habit(
        "Newer operators",
        "g (float[1] x) => (float[1] y) { y = Neg (x) }",
        [f32([1])],
        [f32([-1])],
        "is till opset 26",
        "opset 27 is part of onnx 1.23 or later",
        "writes opset 17 to 26",
        opset=27,
        ir_version=11,
        versions="<1.32",
    ),
]
"""It says so, or the process ends."""


def _no_kernel(name: str, model: str, inputs: list[np.ndarray], right: list[np.ndarray], ours: str,
               says: str = "NOT_IMPLEMENTED") -> Habit:  # fmt: skip
    return Habit(name, model, inputs, right, says, "has the type", ours)


_SCATTER = (
    "g (TYPE[3] x, TYPE[2] u) => (TYPE[3] y) "
    '{ i = Constant <value_ints=[1,1]> () y = ScatterElements <reduction="HOW"> (x, i, u) }'
)

KERNELS = [
    _no_kernel(
        "Max and Min of 16-bit integers",
        "g (int16[1] x) => (int16[1] y) { y = Max (x, x) }",
        [i16([2])], [i16([2])], SMALL_INTEGERS),
    _no_kernel(
        "Where of 16-bit integers",
        "g (bool[1] c, int16[1] x) => (int16[1] y) { y = Where (c, x, x) }",
        [truth([True]), i16([2])], [i16([2])], SMALL_INTEGERS),
    _no_kernel(
        "CumSum of unsigned integers",
        "g (uint32[2] x) => (uint32[2] y) { a = Constant <value_int=0> () y = CumSum (x, a) }",
        [u32([1, 2])], [u32([1, 3])], SMALL_INTEGERS),
    _no_kernel(
        "ReduceSum of unsigned integers",
        "g (uint64[2] x) => (uint64 y) { y = ReduceSum <keepdims=0> (x) }",
        [u64([1, 2])], [u64(3)], SMALL_INTEGERS),
    _no_kernel(
        "TopK of unsigned integers",
        "g (uint32[2] x) => (uint32[1] y, int64[1] i) "
        "{ k = Constant <value_ints=[1]> () y, i = TopK (x, k) }",
        [u32([1, 2])], [u32([2]), i64([1])], SMALL_INTEGERS),
    _no_kernel(
        "Pow by 8-bit integers",
        "g (float[1] x, uint8[1] p) => (float[1] y) { y = Pow (x, p) }",
        [f32([2]), u8([3])], [f32([8])], "converts the power"),
    _no_kernel(
        "Scatter that adds float16",
        _SCATTER.replace("TYPE", "float16").replace("HOW", "add"),
        [f16([1, 1, 1]), f16([1, 1])], [f16([1, 3, 1])], "adds in float32",
        "MLFloat16 data type is not supported"),
    _no_kernel(
        "Scatter of the largest boolean",
        _SCATTER.replace("TYPE", "bool").replace("HOW", "max"),
        [truth([0, 0, 0]), truth([1, 0])], [truth([0, 1, 0])], "compares 0 and 1 as int32",
        "bool data type is not supported"),
    _no_kernel(
        "Nearly everything of bfloat16",
        "g (float[1] x) => (float[1] y) "
        "{ a = Cast <to=16> (x) b = Neg (a) y = Cast <to=1> (b) }",
        [f32([1])], [f32([-1])], "computes in float32, and rounds what comes out"),
]  # fmt: skip
"""Types that the operator has by the standard, and this runtime on this device has not."""

HABITS = {"Other numbers": NUMBERS, "Refused": REFUSED, "No kernel": KERNELS}
