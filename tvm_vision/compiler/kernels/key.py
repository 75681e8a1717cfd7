"""Keys of kernels: digests of all that their code depends on.

That is the function itself, the target, what kernels for it may have, the schedule that tuning
chose, and whatever takes part in making code of them: TVM, the compilers of shaders, and all
sources of this package, so that who changes a schedule never gets what the former one made.
"""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from pathlib import Path

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from ...cache.makers import SOURCES
from ...schedules import ScheduleConfig, TargetLimits
from ...version import __version__
from ...vulkan.codegen.spirv import tool_versions
from .code import PLACEHOLDER_LENGTH


@cache
def makers() -> str:
    """What makes code of functions, in this process."""
    library = Path(tvm.__file__).parent / "lib" / "libtvm_compiler.so"
    return "\0".join(
        [
            __version__,
            SOURCES,
            tvm.__version__,
            # Somebody's own build has the version of the release that it was made from.
            str(library.stat().st_size if library.exists() else 0),
            tvm_ffi.__version__,
            tool_versions(),
            platform.machine(),
        ]
    )


def written(function: tirx.PrimFunc) -> str:
    """A function as TVM writes it to JSON, without what it is called; names of its variables count,
    as shaders have them."""
    if "global_symbol" in (function.attrs or {}):
        function = function.without_attr("global_symbol")
    return str(tvm.ir.save_json(function))


def kernel_digest(
    function: str,
    target: Target,
    limits: TargetLimits | None,
    choice: ScheduleConfig | None,
) -> str:
    """The key of a kernel: 64 hexadecimal digits.

    function: without a schedule, as ``written``. limits: None on a processor, of which the target
    says all.
    """
    parts = [
        makers(),
        str(target),
        repr(limits),
        json.dumps(None if choice is None else choice.to_dict()),
        function,
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


def placeholder(key: str) -> str:
    """What stands for a kernel's name in code that is kept under a key."""
    return f"kernel_{key}_".ljust(PLACEHOLDER_LENGTH, "x")
