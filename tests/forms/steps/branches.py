"""Steps with branches and loops whose index, predicate or number of turns is computed in many
ways."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tests.forms.draw import Draw, Unfit
from tests.forms.program import Spec
from tests.forms.steps.control import looped
from tests.forms.steps.registry import OF_A_VALUE, Form, Maker, filled, last, lines, loss, step
from tests.forms.steps.transform import without

Finish = Callable[[Draw], str]

NESTED = 3
"""How deeply indices are computed from other indices."""

ATTEMPTS = 6
"""The number of texts that are tried before a step is unfit."""

INTEGERS = "{int32|int32|int8|uint8|int16|uint16|uint32}"

NUMBERS = (
    *("{scalar float32}", "{x:f&}.ravel()[{0|-1}]", "jnp.sum({x:f})", "{x:f}.mean()"),
    *("{x:f&}.max()", "{x:f&}.ravel()[0] * {3|0.5|-2|10}", "({scalar float32} + {1|2|0.5})"),
)
"""Expressions of floats, from which indices are computed."""

PREDICATES = (
    *("{scalar bool}", "{x:b&}.ravel()[{0|-1}]", "{x:b}.any()", "{x:b}.all()"),
    *("({NUMBER} {>|<|>=|<=} {0|1|0.5|-1|2.5})", "({INDEX} {==|!=|>|<|<=|>=} {0|1|2|3|-1})"),
    *("({INDEX} {==|>|<} {INDEX})", "jnp.isfinite({NUMBER})", "~{PREDICATE}"),
    *("({PREDICATE} {&|^} {PREDICATE})", "jnp.asarray({PREDICATE}).astype(bool)"),
    *("({scalar int32}).astype(bool)", "{True|np.bool_(False)}", "({x:*1+}.shape[0] > {1|2|3})"),
)
"""Expressions of booleans that choose a branch or continue a loop."""

TRUTH_INDICES = (
    *(f"jnp.asarray({{PREDICATE}}).astype('{INTEGERS}')", "jnp.int32({PREDICATE})"),
    *("lax.convert_element_type({PREDICATE}, 'int32')", "(jnp.int32({PREDICATE}) + 1)"),
    *("({PREDICATE} * {2|3|-1})", "(1 - jnp.int32({PREDICATE}))", "jnp.uint8({PREDICATE})"),
    *("(jnp.int32({PREDICATE}) * 2 + {PREDICATE})", "jnp.where({PREDICATE}, {1|-1|4}, {2|0|9})"),
    *("({NUMBER} {>|<=} {0|0.5|1}).astype(int)", "jnp.int32({x:fi&}.ravel()[0] {>|<|==} {0|1})"),
)
"""Expressions of integers that are computed from booleans."""

FIRST_INDICES = (
    *TRUTH_INDICES,
    # Values of the program, and constants.
    *(f"{{scalar {INTEGERS}}}", "{scalar int32}", "{x:iu&}.ravel()[{0|-1}]", "{x:iu&}.max()"),
    *("{0|1|2|-1|7}", "jnp.int32({0|1|2|5|-3})", "np.int64({1|-1|3})"),
    # Counts.
    *("jnp.sum({x:fiu} {>|<|==} {0|1})", "jnp.sum({x:b})", "jnp.count_nonzero({x:*})"),
    "jnp.sum({x:fiu} > 0, dtype='{int8|uint8|int32}')",
    # Positions.
    *("jnp.{argmax|argmin}({x:*&})", "jnp.argmax({x:*1&} == {x}[-1])"),
    *("jnp.searchsorted({BINS}, {NUMBER})", "jnp.digitize({NUMBER}, {BINS})"),
    *("jnp.argsort({x:fiu1&})[0]", "jnp.nonzero({x:fib1!&}, size=1, fill_value=3)[0][0]"),
    # Of floats.
    *("jnp.{floor|ceil|round}({NUMBER}).astype('{int32|int32|int8|uint8}')", "jnp.int32({NUMBER})"),
    "(jnp.sign({NUMBER}).astype(int) + {0|1})",
)
"""Expressions of integers that choose a branch and are not computed from other integers."""

FURTHER_INDICES = (
    *("({INDEX} % {2|3|4|5})", "lax.rem(jnp.asarray({INDEX}), jnp.asarray({INDEX}).dtype.type(3))"),
    *(
        "({INDEX} & {1|3|7})",
        "({INDEX} {^|>>|<<} 1)",
        "jnp.bitwise_or({INDEX}, {1|2})",
        "({INDEX} // 2)",
        "(-{INDEX})",
    ),
    *("({INDEX} {+|-|*} {1|2})", "abs(jnp.asarray({INDEX}))", "({INDEX} + {INDEX})"),
    *("jnp.clip({INDEX}, {0|-1|1|None}, {1|2|3|5})", "lax.clamp(0, jnp.int32({INDEX}), {1|2|4})"),
    *("jnp.{minimum|maximum}({INDEX}, {1|2|0})", f"jnp.asarray({{INDEX}}).astype('{INTEGERS}')"),
    *("jnp.array([2, 0, 5, 1, -1])[{INDEX} % 5]", "jnp.arange(1, 5)[jnp.clip({INDEX}, 0, 3)]"),
    *("lax.cond({PREDICATE}, lambda: {0|1|2}, lambda: {3|1|-1})", "(~jnp.asarray({INDEX}))"),
    "lax.population_count(jnp.asarray({INDEX}))",
)
"""Expressions of integers that are computed from other integers."""

BINS = "jnp.array([-1.0, 0.0, 0.5, 2.0])"

BRANCHES = (
    *("lambda t: t", "lambda t: t * {2|3|-1}", "lambda t: t + {1|2}", "jnp.zeros_like"),
    *("jnp.ones_like", "lambda t: {like x}", "lambda t: t + {like x}", "lambda t: t - t * 2"),
    *("lambda t: {x}", "lambda t: (t * 5).astype(t.dtype)", "{looped x}"),
    "lambda t: lax.switch({INDEX}, [jnp.abs, lambda s: s * 7, jnp.zeros_like], t)",
)
"""Functions of an array that return one of the same type. Some read values around them."""


USES = {
    "number": (NUMBERS, "jnp.tanh(EXPRESSION)"),
    "predicate": (PREDICATES, "lax.cond(EXPRESSION, jnp.sin, jnp.cos, {t:f})"),
    "truth_index": (TRUTH_INDICES, "lax.switch(EXPRESSION, [jnp.sin, jnp.cos, jnp.tanh], {t:f})"),
    "index": (
        FIRST_INDICES[len(TRUTH_INDICES) :],
        "lax.switch(EXPRESSION, [jnp.sin, jnp.cos, jnp.tanh], {t:f})",
    ),
    "further_index": (FURTHER_INDICES, "lax.switch(EXPRESSION, [jnp.sin, jnp.cos], {t:f})"),
    "branch": (BRANCHES, "lax.switch(jnp.sum({z:f} > 0), [jnp.abs, EXPRESSION], {x:*})"),
}

EXPRESSIONS = {
    f"{name}_{number}": use.replace("EXPRESSION", text)
    .replace("{NUMBER}", "{z:f}.mean()")
    .replace("{PREDICATE}", "{y:b}.any()")
    .replace("{INDEX}", "jnp.sum({z:f} > 0)")
    .replace("{BINS}", BINS)
    for name, (texts, use) in USES.items()
    for number, text in enumerate(texts)
}
"""Lines with each of the expressions, in which others are simple."""


def pick(d: Draw, options: Sequence[str], x: str = "", depth: int = 0) -> str:
    """Return one of several texts that fits, with all of its gaps filled. Raises `Unfit` if none
    does."""
    for text in d.sample(options, min(ATTEMPTS, len(options))):
        with suppress(Unfit):
            return completed(d, text, x, depth)
    raise Unfit


def completed(d: Draw, text: str, x: str, depth: int) -> str:
    """Return a text with all of its gaps filled."""
    if depth > NESTED + 2:
        raise Unfit
    for name, options in (
        ("{NUMBER}", NUMBERS),
        ("{PREDICATE}", PREDICATES),
        ("{INDEX}", FIRST_INDICES if depth >= NESTED or d.chance(0.5) else FURTHER_INDICES),
    ):
        while name in text:
            text = text.replace(name, pick(d, options, x, depth + 1), 1)
    text = text.replace("{BINS}", BINS)
    for gap in ("{x}", "{like x}", "{looped x}") if x else ():
        text = text.replace(gap, x if gap == "{x}" else gap.replace(" x", f" {x}"))
    return filled(d, text)


def index(d: Draw) -> str:
    return pick(d, (*FIRST_INDICES, *FURTHER_INDICES))


def branches(d: Draw, x: str) -> str:
    """Return a list of one to six functions, which mostly differ."""
    count = d.choice(1, 2, 2, 3, 3, 3, 3, 4, 5, 6)
    return f"[{', '.join(pick(d, BRANCHES, x) for _ in range(count))}]"


def predicate_of(d: Draw, x: str) -> str:
    """Return a function of a value that returns a boolean."""
    return d.function([d.pool[x]], lambda b: pick(b, PREDICATES), (0, 2))


OF_A_VALUE |= {
    "index": index,
    "truth_index": lambda d: pick(d, TRUTH_INDICES),
    "predicate": lambda d: pick(d, PREDICATES),
    "branches": branches,
    "branch": lambda d, x: pick(d, BRANCHES, x),
    "goes_on": predicate_of,
}
lines("""
0.8 switch_of_truth lax.switch({truth_index}, {branches x}, {x:*})
1.5 switch_of_any lax.switch({index}, {branches x}, {x:*})
0.7 cond_of_any lax.cond({predicate}, {branch x}, {branch x}, {x:*})
0.3 select_of_any jnp.where({predicate}, {x:*}, {like x})
0.3 piecewise jnp.piecewise({x:f}, [{x} < {0|-1}, {x} > {1|0}], [{branch x}, {branch x}, 0.5])
0.2 choose jnp.choose({of x int32}, [{x:fi}, {like x}, {like x}], mode='{wrap|clip}')
0.5 switch_of_round lax.fori_loop({0|1|-2}, {2..5}, lambda i, c: lax.switch({i|i % 2|i - 1|i & 1
    |2 - i|i // 2|jnp.int32(i > 1)|i + {index}}, {branches x}, c), {x:*})
0.5 switch_of_scanned lax.scan(lambda c, i: (lax.switch({i|i + 1|i % 3|-i}, {branches x}, c), i),
    {x:*}, {jnp.arange({1..5})|jnp.array([2, -1, 0, 3, 1])|(jnp.arange(4) > 1).astype(int)
    |jnp.arange(3, dtype='uint8')})
0.5 switch_of_each jax.vmap(lambda i, t: lax.switch(i, [jnp.sin, lambda s: s * 2, jnp.abs], t))(
    {{x:f1+&}.astype(int).reshape({x}.shape[0], -1)[:, 0]|(jnp.arange({x}.shape[0]) % 3)
    |({x} > 0).reshape({x}.shape[0], -1)[:, 0].astype(int)}, {x})
0.5 fori_of_any lax.fori_loop({0|1|jnp.clip({index}, 0, 2)}, jnp.clip(jnp.int32({index}), {-1|0|1},
    {1..4}), {counted x}, {x:fi})
0.5 while_of_any lax.while_loop(lambda s: (s[0] < {1..4}) & {goes_on x}(s[1]),
    lambda s: (s[0] + 1, {looped x}(s[1])), (0, {x:fi}))[1]
0.3 while_of_index {x:fi} * lax.while_loop(lambda i: i {<|<=} {1..4}, lambda i: i + 1,
    jnp.clip(jnp.int32({index}), -2, 5)).astype({x}.dtype)
""")


def ending(write: Maker, finish: Finish) -> Finish:
    """Return a function that adds this step and then finishes the function that is drawn."""
    form = Form(write.__name__, 1, write)

    def run(d: Draw) -> str:
        if not any(d.attempt(form) for _ in range(4)):
            raise Unfit
        return finish(d)

    return run


def branching(d: Draw) -> str:
    """Write a `switch` or a `cond` on a late value."""
    x = d.any()
    text = f"lax.switch({index(d)}, {branches(d, x)}, {x})"
    other = f"lax.cond({pick(d, PREDICATES)}, {pick(d, BRANCHES, x)}, {pick(d, BRANCHES, x)}, {x})"
    return d.choice(text, text, other)


@step(0.6)
def vmap_of_branches(d: Draw) -> str:
    x = d.any(rank=(1, 4))
    axis = d.axis(x, negative=False)
    fn = d.function([without(d.pool[x], axis)], ending(branching, last), (0, 2))
    return f"jax.vmap({fn}, in_axes={axis}, out_axes={d.choice(0, -1)})({x})"


@step(0.6)
def gradient_of_branches(d: Draw) -> str:
    x = d.floating()
    fn = d.function([d.pool[x]], ending(branching, loss), (0, 2))
    return f"jax.{d.choice('grad', 'grad', 'value_and_grad')}({fn})({x})"


@step(0.6)
def scan_of_branches(d: Draw) -> str:
    xs = d.any(rank=(1, 3))
    row = without(d.pool[xs], 0)

    def finish(b: Draw, carry_spec: Spec) -> str:
        names = [n for n, s in b.pool.items() if s == carry_spec]
        return f"({b.pick(names[-2:])}, {last(b)})"

    carry = d.any("fi", (0, 3))
    carry_spec = d.pool[carry]
    fn = d.function(
        [carry_spec, row], ending(branching, partial(finish, carry_spec=carry_spec)), (0, 2)
    )
    return f"lax.scan({fn}, {carry}, {xs})"


@step(0.4)
def loop_of_branches(d: Draw) -> str:
    x = d.any("fi", (0, 3))
    spec = d.pool[x]
    counter = Spec((), "int32")

    def finish(b: Draw) -> str:
        return b.pick([n for n, s in b.pool.items() if s == spec][-2:])

    fn = d.function([counter, spec], ending(branching, finish), (0, 2))
    return f"lax.fori_loop({d.choice(0, 1)}, {d.integer(1, 4)}, {fn}, {x})"


@step(0.5)
def switch_of_several(d: Draw) -> str:
    """Switch between branches with no operand or with several, some with several results."""
    x, y = d.any(), d.any()
    several = d.choice(
        f"lambda s, t: ({pick(d, BRANCHES, x)})(s)",
        f"lambda s, t: {looped(d, x)}(s)",
    )
    pairs = [
        f"lambda s, t: (({pick(d, BRANCHES, x)})(s), ({pick(d, BRANCHES, y)})(t))"
        for _ in range(d.integer(2, 4))
    ]
    nothing = [f"lambda: ({pick(d, BRANCHES, x)})({x})" for _ in range(d.integer(1, 4))]
    chosen = index(d)
    return d.choice(
        f"lax.switch({chosen}, [{', '.join(pairs)}], {x}, {y})",
        f"lax.switch({chosen}, [{', '.join(nothing)}])",
        f"lax.switch({chosen}, [{several}, lambda s, t: s], {x}, {y})",
    )
