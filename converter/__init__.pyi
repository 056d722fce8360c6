"""The public names, and where they are; each is imported when it is first used."""

from .api.bisection import bisect
from .api.conversion import to_onnx
from .api.explanation import Explanation, Obstacle, explain
from .api.extensions import expansion, extensions, rule
from .errors import CheckError, ConverterError, SaveError, SpecError, UnsupportedError
from .fuse.match import NearMiss
from .fuse.user_recognisers import recogniser
from .lower.builder import Builder
from .model.half_precision import emulate_bfloat16, lower_precision
from .model.joining import join
from .model.results import Export, Metadata, Report, report
from .model.saving import save
from .model.verdict import Difference, Errors, Verdict, compare
from .opsets import IR_VERSIONS, OPSETS
from .targets import TARGETS, AttentionLayout, find_target
from .verify.checking import check
from .verify.sessions import run, session
from .verify.watch import Change

__all__ = [
    "IR_VERSIONS",
    "OPSETS",
    "TARGETS",
    "AttentionLayout",
    "Builder",
    "Change",
    "CheckError",
    "ConverterError",
    "Difference",
    "Errors",
    "Explanation",
    "Export",
    "Metadata",
    "NearMiss",
    "Obstacle",
    "Report",
    "SaveError",
    "SpecError",
    "UnsupportedError",
    "Verdict",
    "bisect",
    "check",
    "compare",
    "emulate_bfloat16",
    "expansion",
    "explain",
    "extensions",
    "find_target",
    "join",
    "lower_precision",
    "recogniser",
    "report",
    "rule",
    "run",
    "save",
    "session",
    "to_onnx",
]
