"""The lines of `tests.forms`, of which random programs are composed, with each of their
alternatives once."""

from tests.conformance import DEFAULT, Case
from tests.forms.alternatives import table
from tests.forms.program import Program, function

SEEDS = {
    **dict.fromkeys(("bitcast 2", "diagonal diagonal", "expand", "gather", "vmap_nested 3"), 1),
    **dict.fromkeys(("layer_norm 3", "rms_norm 1", "named_axis 8", "named_axis_in_vmap 2"), 1),
    **dict.fromkeys(("named_axis_in_vmap 3", "named_axis_in_vmap 5", "piecewise", "branch_1"), 1),
    **dict.fromkeys(("switch_of_round 3", "switch_of_several 3"), 1),
    **{"scatter 2": 2, "cross": 2, "named_axis_in_vmap 4": 2, "named_axis_in_vmap": 3},
    **{"named_axis_in_vmap 1": 4, "select": 4, "select 1": 4, "glu": 4},
    **dict.fromkeys(("rotary_by_matrices", "rotary_by_matrices 3"), 2),
    "lax_cumulative cumlogsumexp": 8,  # of floats
}
"""Seeds of lines whose first values JAX refuses."""

PROGRAMS: list[Case] = []


def add(name: str, program: Program, *, is_default: bool) -> None:
    """Add a program to the table."""
    specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
    tags = DEFAULT if is_default else frozenset[str]()
    PROGRAMS.append(Case(name, function(program)[0], specs, tags=tags))


added_forms = set[str]()
for _name, _program in table(SEEDS).items():
    add(_name, _program, is_default=_program.steps[0].form not in added_forms)
    added_forms.add(_program.steps[0].form)
