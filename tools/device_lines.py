"""What commands say of a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm_vision.vulkan import DeviceInfo

FEATURES = (
    "float16",
    "float64",
    "int8",
    "int16",
    "int64",
    "8bit_buffer",
    "16bit_buffer",
    "integer_dot_product",
    "cooperative_matrix",
)


def describe(info: DeviceInfo) -> Iterator[str]:
    """The lines that tell of one device, the first without indent."""
    yield info.describe()
    memory = "shared with the CPU" if info.unified_memory else "of its own"
    yield f"  memory     {info.memory_bytes / 2**30:.1f} GiB {memory}"
    yield (
        f"  workgroup  up to {info.max_threads_per_block} threads, "
        f"{info.max_shared_memory_per_block // 1024} KiB shared"
    )
    lanes = sorted({info.min_subgroup_size, info.thread_warp_size, info.max_subgroup_size})
    yield f"  subgroup   {info.thread_warp_size} lanes of {lanes[0]} to {lanes[-1]}"
    timer = f"{info.timestamp_period_ns:g} ns a tick" if info.timestamp_bits else "none"
    yield f"  timestamps {timer}"
    for word, wanted in (("has", True), ("lacks", False)):
        names = [name for name in FEATURES if getattr(info, f"supports_{name}") is wanted]
        yield f"  {word:<10} {', '.join(names).replace('_', ' ') or 'nothing'}"
    for m, n, k, *types in info.cooperative_matrix_shapes:
        yield f"  matrix     {m}x{n}x{k} {' '.join(str(name) for name in types)}"
