"""The quirks of ONNX Runtime, in the order in which they are avoided."""

from converter.ir import Node, ops
from converter.targets.onnxruntime import floats, integers, products, resizes
from converter.targets.target import Deviation, Quirk

SIGMOID_TEXT = "a sigmoid is off by up to 1e-7, which far below zero is all of it"
GATES_TEXT = "the gates of a recurrent operator are off by up to 2e-7, and none is NaN"

SLOPES_TEXT = "an infinity is NaN in a PRelu"


def _has_slopes(node: Node) -> bool:
    """Return True if a leaky ReLU has its slopes as a second operand, so that it becomes a
    ``PRelu``."""
    return len(node.inputs) > 1


QUIRKS = (
    Quirk(
        "The lowest integer divided by -1",
        "",
        "g (int32[1] x, int32[1] d) => (int32[1] y) { y = Div (x, d) }",
        {ops.div: integers.divide_lowest},
    ),
    Quirk(
        "The remainder of the lowest integer by -1",
        "<1.32",
        "g (int32[1] x, int32[1] d) => (int32[1] y) { y = Mod (x, d) }",
        {ops.rem: integers.remainder_of_lowest},
    ),
    Quirk(
        "Remainder of 64-bit integers",
        "<1.32",
        "g (int64[1] x, int64[1] d) => (int64[1] y) { y = Mod <fmod=1> (x, d) }",
        {ops.rem: integers.remainder_by_quotient},
    ),
    Quirk(
        "Sign of 64-bit integers",
        "<1.32",
        "g (int64[3] x) => (int64[3] y) { y = Sign (x) }",
        {ops.sign: integers.sign_by_comparisons},
    ),
    Quirk(
        "Sum of integers beyond their range",
        "",
        "g (int32[2] x) => (int32 y) { y = ReduceSum <keepdims=0> (x) }",
        {ops.reduce_sum: integers.sum_by_product},
    ),
    Quirk(
        "Product of integers beyond their range",
        "",
        "g (int32[2] x) => (int32 y) { y = ReduceProd <keepdims=0> (x) }",
        {ops.reduce_prod: integers.multiply_by_halves},
    ),
    Quirk(
        "Largest of many 64-bit integers",
        "<1.32",
        "g (int64[9] x) => (int64 y) { y = ReduceMax <keepdims=0> (x) }",
        {ops.reduce_max: integers.exact_extreme, ops.reduce_min: integers.exact_extreme},
    ),
    Quirk(
        "A padding in front of a pool of maxima",
        "<1.32",
        "g (float[1,1,3] x) => (float[1,1,2] y) { p = Constant <value_ints=[0,0,1,0,0,0]> () "
        "z = Pad (x, p) y = MaxPool <kernel_shape=[2], strides=[2]> (z) }",
        dict.fromkeys((ops.max_pool, ops.sum_pool, ops.avg_pool), floats.pad_with_negative_zero),
    ),
    Quirk(
        "A negative padding that leaves no elements",
        "<1.24",
        "g (float[1] x) => (float[1] y) { p = Constant <value_ints=[-1,1]> () "
        "c = Constant <value_float=2.0> () y = Pad (x, p, c) }",
        {ops.pad: floats.fill_empty_pad},
    ),
    Quirk(
        "Padding that a mean counts",
        "<1.25",
        "g (float[1,1,1,1] x) => (float[1,1,1,1] y) "
        "{ y = AveragePool <kernel_shape=[2,1], pads=[0,0,1,0], count_include_pad=1> (x) }",
        dict.fromkeys((ops.sum_pool, ops.avg_pool), floats.pad_before_pool),
    ),
    Quirk(
        "The error function of NaN",
        "<1.27",
        "g (float[1] x) => (float[1] y) { y = Erf (x) }",
        {ops.erf: floats.keep_nan_of_erf},
    ),
    Quirk(
        "A mask for each head if heads share keys",
        "<1.25",
        "g (float[1,2,1,1] q, float[1,1,1,1] k, float[1,2,1,1] m) => (float[1,2,1,1] y) "
        "{ y = Attention (q, k, k, m) }",
        {ops.attention: floats.repeat_keys},
    ),
    Quirk(
        "PRelu of infinity",
        "<1.27",
        "g (float[2] x, float[1] s) => (float[2] y) { y = PRelu (x, s) }",
        deviations={ops.leaky_relu: Deviation(SLOPES_TEXT, floats.expand_leaky_relu, _has_slopes)},
    ),
    Quirk(
        "Weights of a convolution that overflow with the factor after it",
        "",
        "g (float[1,1,1] x) => (float[1,1,1] y) "
        "{ w = Constant <value = float[1,1,1] {1e30}> () z = Conv (x, w) y = Mul (z, w) }",
        {ops.mul: floats.exchange_factor},
    ),
    Quirk(
        "Floats that overflow in eight bits",
        "",
        "g (float[1] x) => (float[1] y) { a = Cast <to=19, saturate=0> (x) y = Cast <to=1> (a) }",
        {ops.convert_element_type: floats.keep_overflow_in_float8},
    ),
    Quirk(
        "GELU of a single number, as its formula",
        "",
        "g (float x) => (float y) { c = Constant <value_float=0.044715> () "
        "s = Constant <value_float=0.7978845608> () o = Constant <value_float=1.0> () "
        "h = Constant <value_float=0.5> () a = Mul (x, c) b = Mul (a, x) d = Mul (x, s) "
        "e = Add (b, o) f = Mul (d, e) t = Tanh (f) i = Mul (x, h) j = Add (t, o) k = Mul (i, j) "
        "y = Neg (k) }",
        {ops.gelu: floats.reshape_scalar_gelu},
    ),
    Quirk(
        "Sigmoid of negative numbers",
        "",
        "g (float[1] x) => (float[1] y) { y = Sigmoid (x) }",
        deviations={
            ops.logistic: Deviation(SIGMOID_TEXT, floats.expand_logistic),
            ops.swish: Deviation(SIGMOID_TEXT),
            **dict.fromkeys(
                (ops.lstm, ops.gru, ops.rnn),
                Deviation(
                    GATES_TEXT,
                    absolute_functions=(ops.tanh, ops.logistic),
                    absolute_magnitude=1 / 2,
                ),
            ),
        },
    ),
    Quirk(
        "A product of a transposed and converted matrix",
        "",
        "g (int32[2,3,4] x, float[4,2] w) => (float[3,2,2] y) "
        "{ t = Transpose <perm=[1,0,2]> (x) c = Cast <to=1> (t) y = MatMul (c, w) }",
        model=products.equalize_ranks,
    ),
    Quirk(
        "A transposed matrix times a vector",
        "",
        "g (float[3,3] a, float[3] v) => (float[3] y) "
        "{ t = Transpose <perm=[1,0]> (a) y = MatMul (t, v) }",
        model=products.vector_to_column,
    ),
    Quirk(
        "A product of two transposed matrices, one of them an output",
        "<1.32",
        "g (float[2,3] x, float[1,2] w, float[1] b) => (float[3,2] t, float[3,1] y) "
        "{ t = Transpose <perm=[1,0]> (x) u = Transpose <perm=[1,0]> (w) "
        "p = MatMul (t, u) y = Add (p, b) }",
        model=products.stack_matrices,
    ),
    Quirk(
        "A resizing between transpositions",
        "",
        "g (float[1,2,1,2] x) => (float[1,8,4,1] y) { a = Transpose <perm=[0,3,1,2]> (x) "
        "c = Concat <axis=1> (a, a) t = Transpose <perm=[0,3,1,2]> (c) "
        's = Constant <value_ints=[1,1,8,4]> () r = Resize <mode="linear"> (t, "", "", s) '
        "y = Transpose <perm=[0,2,3,1]> (r) }",
        {ops.resize: resizes.resize_axes_separately},
    ),
    Quirk(
        "A float64 product that is scaled",
        "<1.32",
        "g (double[2,2] a, double[2,2] b) => (double[2,2] y) "
        "{ s = Constant <value = double {0.1}> () p = MatMul (a, b) y = Mul (p, s) }",
        model=products.prevent_float64_fusion,
    ),
)
