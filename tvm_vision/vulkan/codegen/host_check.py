"""Functions for Vulkan that touch their tensors outside of threads, refused before compilation.

What no thread of the device does, TVM leaves to the host, which gets the device's handles for
pointers and crashes. Its own VerifyMemory lets such functions pass, so every build through TVM's
pipeline for TensorIR looks for them first.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import IRModule, ir, tirx, transform

from tvm_vision.errors import UnsupportedKernelError

from . import vector_forms

PIPELINE = "s_tir"
_MARK = "_tvm_vision_checks_hosts"


def install() -> None:
    """Put the check, and the forms of functions for vectors, before TVM's pipeline; does nothing
    the second time, or without a compiler."""
    from tvm.tirx.compilation_pipeline import PIPELINE_MAP

    original = PIPELINE_MAP.get(PIPELINE)
    if original is None or hasattr(original, _MARK):
        return
    vector_forms.install()

    def checked(*args: Any, **options: Any) -> Any:
        pipeline, *finalize = original(*args, **options)

        @transform.module_pass(opt_level=0, name="tvm_vision.CheckHost")
        def check_first(mod: IRModule, _context: transform.PassContext) -> IRModule:
            check_host(mod)
            return pipeline(vector_forms.vector_forms(mod))

        return (check_first, *finalize)

    setattr(checked, _MARK, True)
    PIPELINE_MAP[PIPELINE] = checked


def check_host(mod: IRModule) -> None:
    """Look at the functions of a module that are bound to a target of kind vulkan.

    Raises:
        UnsupportedKernelError: one loads from its tensors or stores to them outside of threads.
    """
    called = _called(mod)
    for name, function in mod.functions_items():
        if not isinstance(function, tirx.PrimFunc) or name.name_hint in called:
            continue
        target: Any = (function.attrs or {}).get("target", None)
        if target is None or target.kind.name != "vulkan":
            continue
        touched = touched_by_host(function)
        if touched:
            raise UnsupportedKernelError(
                f"function {name.name_hint} touches {', '.join(touched)} outside of any thread, "
                "where the host would use the device's memory: bind its loops to blockIdx and "
                "threadIdx, or give it a schedule (tvm.s_tir.dlight.ApplyDefaultSchedule)"
            )


def touched_by_host(function: tirx.PrimFunc) -> list[str]:
    """The tensors among a function's arguments that it loads from or stores to outside of threads,
    by name."""
    arguments = {buffer for buffer in function.params if tirx.buffer.is_buffer_var(buffer)}
    found: list[str] = []

    def see(node: Any) -> Any:
        if isinstance(node, (tirx.BufferStore, ir.TensorLoad)):
            buffer = node.buffer if isinstance(node, tirx.BufferStore) else node.source
            if buffer in arguments:
                found.append(buffer.name)
        loop = isinstance(node, tirx.For) and node.kind == tirx.ForKind.THREAD_BINDING
        hand = isinstance(node, tirx.AttrStmt) and str(node.attr_key) == "thread_extent"
        return tvm_ffi.WalkResult.SKIP if loop or hand else None

    kinds = (tirx.For, tirx.AttrStmt, tirx.BufferStore, ir.TensorLoad)
    tvm_ffi.structural_walk(function.body, (kinds, see), order="pre")
    return list(dict.fromkeys(found))


def _called(mod: IRModule) -> set[str]:
    """Names of the functions that others call: what they touch is their callers' affair."""
    found: set[str] = set()

    def see(call: Any) -> None:
        if isinstance(call.op, ir.GlobalVar):
            found.add(call.op.name_hint)

    for _, function in mod.functions_items():
        if isinstance(function, tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (ir.Call, see))
    return found
