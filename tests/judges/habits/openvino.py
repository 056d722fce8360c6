"""OpenVINO on a CPU."""

from tests.judges.habits import DIES, Habit
from tests.judges.habits.arrays import INF, LOWEST, NAN, f32, f64, i64, truth, u8, u32

VERSIONS = ("2026.4.1",)

NOTHING = "nothing: the file is right by the standard"

NUMBERS = [
    Habit(
        "A scan of what its body does not read",
        "g (float[2] x, int64[5] r) => (float[2] y) { y = Scan <num_scan_inputs=1, "
        "body = s (float[2] u, int64 i) => (float[2] w) { w = Add (u, u) }> (x, r) }",
        [f32([1, 1]), i64([0, 1, 2, 3, 4])],
        [f32([32, 32])],
        [f32([2, 2])],
        "the body runs once for each element of what is scanned; here it runs once",
        "writes a loop without operands (`fori_loop`) as `Loop`",
    ),
    Habit(
        "A padding with a number that is not a constant",
        "g (float[2] x, float v) => (float[3] y) "
        "{ p = Constant <value_ints=[1,0]> () y = Pad (x, p, v) }",
        [f32([1, 1]), f32(7)],
        [f32([7, 1, 1])],
        [f32([0, 1, 1])],
        "`constant_value` is an input like others",
        NOTHING,
    ),
    Habit(
        "Resizing with antialias",
        "g (float[1,1,1,6] x) => (float[1,1,1,3] y) { s = Constant <value_ints=[1,1,1,3]> () "
        'y = Resize <mode="linear", antialias=1> (x, "", "", s) }',
        [f32([[[[-3, -2, -1, 0, 1, 2]]]])],
        [f32([[[[-2.375, -0.5, 1.375]]]])],
        [f32([[[[-2.5, -0.5, 1.5]]]])],
        "the filter is stretched when an image shrinks; the attribute is not looked at",
        NOTHING + "; at a fixed size position embeddings are resized when the file is saved",
    ),
    Habit(
        "Cubic resizing that leaves out what is outside",
        "g (float[1,1,1,3] x) => (float[1,1,1,5] y) { s = Constant <value_ints=[1,1,1,5]> () "
        'y = Resize <mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5> (x, "", "", s) }',
        [f32([[[[-3, -2, -1]]]])],
        [f32([[[[-3.0754719, -2.6940296, -2, -1.3059698, -0.9245281]]]])],
        [f32([[[[-3.064, -2.672, -2, -1.328, -0.936]]]])],
        "weights of elements outside are zero and the others sum to one; the attribute is not "
        "looked at",
        NOTHING,
    ),
    Habit(
        "Two convolutions with the same kernels, the first one scaled",
        "g (float[1,2,4] x, float[2,1,2] w) => (float[1,2,2] y) "
        "{ c = Constant <value_float=2.0> () a = Conv <group=2> (x, w) z = Mul (c, a) "
        "y = Conv <group=2> (z, w) }",
        [f32([[[1, 2, 3, 4], [1, 1, 1, 1]]]), f32([[[1, 1]], [[1, 1]]])],
        [f32([[[16, 24], [8, 8]]])],
        [f32([[[32, 48], [16, 16]]])],
        "the scale is of one convolution; it is folded into the kernels of both",
        NOTHING,
    ),
    Habit(
        "64-bit integers",
        "g (int64[1] x) => (int64[1] y) { y = Add (x, x) }",
        [i64([2**40])],
        [i64([2**41])],
        [i64([0])],
        "computes in 64 bits; OpenVINO in 32",
        "uses int64 for indices and for sums that wrap, which then may saturate",
    ),
    Habit(
        "Doubles",
        "g (double[1] x) => (double[1] y) { y = Add (x, x) }",
        [f64([2**40 + 1])],
        [f64([2**41 + 2])],
        [f64([2**41])],
        "computes in float64; OpenVINO in float32",
        "takes the extremes of uint32 through float64 for ONNX Runtime's sake",
    ),
    Habit(
        "Integers of 8 bits beyond their range",
        "g (uint8[2] x, uint8[2] z) => (uint8[2] y) { y = Add (x, z) }",
        [u8([250, 1]), u8([10, 1])],
        [u8([4, 2])],
        [u8([255, 2])],
        "does not say; the standard's evaluator, ONNX Runtime and JAX wrap",
        NOTHING,
    ),
    Habit(
        "Shifting unsigned integers to the right",
        'g (uint32[1] x, uint32[1] n) => (uint32[1] y) { y = BitShift <direction="RIGHT"> (x, n) }',
        [u32([2**32 - 1]), u32([3])],
        [u32([2**29 - 1])],
        [u32([0])],
        "zeros come in from the left",
        NOTHING,
    ),
    Habit(
        "Rounding to float16",
        "g (float[1] x) => (float[1] y) { a = Cast <to=10> (x) y = Cast <to=1> (a) }",
        [f32([1.001])],
        [f32([1.0009766])],
        [f32([1.001])],
        "`Cast` rounds; both conversions are taken out",
        NOTHING,
    ),
    Habit(
        "Equals among the smallest",
        "g (float[9] x) => (float[9] y, int64[9] i) "
        "{ k = Constant <value_ints=[9]> () y, i = TopK <largest=0> (x, k) }",
        [f32([3, 1, 3, 2, 1, 3, 1, 2, 2])],
        [f32([1, 1, 1, 2, 2, 2, 3, 3, 3]), i64([1, 4, 6, 3, 7, 8, 0, 2, 5])],
        [f32([1, 1, 1, 2, 2, 2, 3, 3, 3]), i64([1, 4, 6, 8, 7, 3, 5, 2, 0])],
        "of equals the one with the lower index comes first",
        NOTHING,
    ),
    Habit(
        "Extremes of nothing",
        "g (float[0,3] x) => (float[3] y) "
        "{ a = Constant <value_ints=[0]> () y = ReduceMax <keepdims=0> (x, a) }",
        [f32([]).reshape(0, 3)],
        [f32([-INF] * 3)],
        [f32([LOWEST] * 3)],
        "minus infinity",
        NOTHING,
    ),
    Habit(
        "A constant without elements",
        "g (float[1] x) => (float[1] z, float[0,4] y) <float[0,4] e = {}> "
        "{ y = Identity (e) z = Neg (x) }",
        [f32([1])],
        [f32([-1]), f32([]).reshape(0, 4)],
        [f32([-1]), f32(0)],
        "an output of shape [0, 4]; it is one of shape []",
        NOTHING,
    ),
    Habit(
        "NaN compared",
        "g (float[2] x, float[2] z) => (bool[2] y) { y = Greater (x, z) }",
        [f32([1, NAN]), f32([NAN, 1])],
        [truth([False, False])],
        [truth([True, True])],
        "IEEE 754: no comparison with NaN is true",
        NOTHING,
    ),
    Habit(
        "NaN through a maximum",
        "g (float[2] x, float[2] z) => (float[2] y) { y = Max (x, z) }",
        [f32([NAN, 1]), f32([1, NAN])],
        [f32([NAN, NAN])],
        [f32([1, NAN])],
        "leaves open what becomes of NaN; numpy and JAX return it",
        NOTHING,
        settled=False,
    ),
    Habit(
        "NaN through exp",
        "g (float[1] x) => (float[1] y) { y = Exp (x) }",
        [f32([NAN])],
        [f32([NAN])],
        [f32([INF])],
        "a function of NaN is NaN",
        NOTHING,
    ),
]

REFUSED = [
    Habit(
        "A scan whose body reads a value outside of it",
        "g (float[4,2] x, float[2] c, float[2] z) => (float[2] y) { y = Scan <num_scan_inputs=1, "
        "body = s (float[2] u, float[2] i) => (float[2] w) { h = Add (u, i) w = Mul (h, z) }> "
        "(c, x) }",
        [f32([[1, 1]] * 4), f32([1, 1]), f32([1, 1])],
        [f32([5, 5])],
        "num_scan_outputs can't be negative",
        "values from outer scopes may be read in a body",
        NOTHING,
    ),
    Habit(
        "A scan that gives a constant",
        "g (float[4,2] x) => (float[4] y) { y = Scan <num_scan_inputs=1, "
        "body = s (float[2] i) => (float w) { w = Constant <value_float=7.0> () }> (x) }",
        [f32([[1, 1]] * 4)],
        [f32([7, 7, 7, 7])],
        DIES,
        "the body runs four times",
        NOTHING,
    ),
    Habit(
        "Gathering from nothing",
        "g (float[4,0] x) => (float[2,0] y) "
        "{ i = Constant <value_ints=[1,2]> () y = Gather (x, i) }",
        [f32([]).reshape(4, 0)],
        [f32([]).reshape(2, 0)],
        DIES,
        "two rows without elements",
        NOTHING,
    ),
    Habit(
        "Operators of opset 26",
        "g (float[2] x) => (float[2] y) { a = Constant <value_int=0> () y = CumProd (x, a) }",
        [f32([2, 3])],
        [f32([2, 6])],
        "No conversion rule found for operations: CumProd-26",
        "`CumProd` and `BitCast` are new in opset 26",
        "uses them from opset 26 on only",
        opset=26,
        ir_version=11,
    ),
]

HABITS = {"Other numbers": NUMBERS, "Refused": REFUSED}
