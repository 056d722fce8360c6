"""Tests. This module sets environment variables before any test module imports JAX."""

import atexit
import os
import shutil
import tempfile
from importlib.metadata import version

# The tests compile thousands of small functions. Many are compiled by both workers and by the
# commands that tests start, and most are called once. A shared cache compiles each function once,
# and the flags make a compilation cheaper.
FLAGS = ["--xla_llvm_disable_expensive_passes=true", "--xla_backend_optimization_level=0"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):  # later versions reject the flag
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
# The workers share the cores. Threads of PyTorch that wait for work would spin. The variable also
# limits OpenBLAS and Arrow: measure speed in a process that does not import `tests`.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jax-cache-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # One worker may read an entry that the other is still writing. JAX then warns and compiles the
    # function again. pyproject.toml filters this warning for the tests; this filter is for the
    # commands that tests start.
    os.environ["PYTHONWARNINGS"] = "ignore:Error reading persistent compilation cache"
