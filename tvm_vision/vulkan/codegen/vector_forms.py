"""Functions of vectors, where TVM would take a loop over lanes.

TVM marks which operators may have vectors as arguments for all targets at once, and does not mark
those that some target has for scalars alone: LLVM has no erf of a vector. GLSL's functions here
take any length. So kernels for Vulkan call operators of the same names in a namespace of ours,
which are marked; whose loops stay vectorized, and what they store is stored at once.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import IRModule, ir, tirx

NAMESPACE = "tvm_vision"
NAMES = """acos acosh asin asinh atan atan2 atanh copysign erf fmod hypot log1p nextafter
rsqrt""".split()
_PURE = 1  # TVM's CallEffectKind


def install() -> None:
    """Register the operators; does nothing the second time, or without a compiler."""
    register = tvm_ffi.get_global_func("ir.RegisterOp", allow_missing=True)
    known = tvm_ffi.get_global_func("ir.ListOpNames", allow_missing=True)
    if register is None or known is None:
        return
    there = {str(name) for name in known()}
    for name in NAMES:
        own = f"{NAMESPACE}.{name}"
        if own not in there:
            register(own, f"{name} of a scalar or a vector, for Vulkan")
            ir.register_op_attr(own, "TCallEffectKind", _PURE)
            ir.register_op_attr(own, "TVectorizable", True)


def vector_forms(mod: IRModule) -> IRModule:
    """A module whose functions for targets of kind vulkan call the operators that take vectors."""
    changed = IRModule(dict(mod.functions_items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for name, function in mod.functions_items():
        target: Any = (getattr(function, "attrs", None) or {}).get("target", None)
        if isinstance(function, tirx.PrimFunc) and target is not None:
            if target.kind.name == "vulkan":
                changed[name] = _renamed(function)
    return changed


def _renamed(function: tirx.PrimFunc) -> tirx.PrimFunc:
    own = {f"tirx.{name}": ir.Op.get(f"{NAMESPACE}.{name}") for name in NAMES}

    def see(call: ir.Call) -> ir.Call:
        found = own.get(str(getattr(call.op, "name", "")))
        if found is None:
            return call
        return ir.Call(found, call.args, ret_ty=call.ty, span=call.span)

    body = tvm_ffi.structural_map(function.body, [(ir.Call, see)], order="post")
    return function.with_body(body)
