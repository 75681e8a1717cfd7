"""One description of a device: where its numbers come from, and what estimates make of them."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tvm.target import Target

import tvm_vision
from tvm_vision.options import CompileOptions
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.cost import coopmat_gemm as coopmat_gemm_cost
from tvm_vision.schedules.cost import device_model, gemm_pipelines
from tvm_vision.schedules.cost import direct_conv as direct_conv_cost
from tvm_vision.schedules.cost import gemm as gemm_cost
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile
from tvm_vision.schedules.cost.device_model import (
    ASSUMED,
    CPU,
    DESCRIPTIONS,
    DISCRETE,
    FITTED,
    INTEGRATED,
    TOLD,
    UNKNOWN,
    DeviceModel,
    PipelineCosts,
    Units,
)
from tvm_vision.schedules.cost.direct_conv import DirectConvTile, Windows
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.cost.pipelines import resident_groups
from tvm_vision.schedules.cost.split_k import parts_of
from tvm_vision.schedules.factors import FP16
from tvm_vision.schedules.gpu.elementwise import ElementwiseShape, Outputs
from tvm_vision.schedules.gpu.elementwise import default as elementwise_default
from tvm_vision.schedules.gpu.reduction import RowShape, RowSums
from tvm_vision.schedules.gpu.reduction import candidates as reduction_candidates
from tvm_vision.schedules.gpu.window import WindowSum
from tvm_vision.schedules.gpu.window import default as window_default
from tvm_vision.schedules.gpu.winograd import Tiles
from tvm_vision.schedules.gpu.winograd import default as winograd_default
from tvm_vision.target_keys import COMPUTE_UNITS, FEW_BRANCHES, is_key, numbers_in
from tvm_vision.vulkan.device_keys import keys_of

LIMITS = TargetLimits(threads=1024, shared_bytes=49152, subgroup=32, matrices=((16, 16, 16),))
SMALL = dataclasses.replace(LIMITS, device=INTEGRATED)
LARGE = dataclasses.replace(LIMITS, device=INTEGRATED.with_units(132))
PRODUCTS = [  # of ResNet-18 and YOEO: m, n, k
    (64, 3136, 576),
    (128, 784, 1152),
    (256, 196, 2304),
    (512, 49, 4608),
    (64, 12544, 147),
    (32, 173056, 288),
]


def target(device_type: str = "", *keys: str, **attributes: Any) -> Target:
    kind = {"device_type": device_type} if device_type else {}
    config = {"kind": "vulkan", "keys": ["vulkan", "gpu", *keys], **kind, **attributes}
    return Target(config, host="llvm")


@pytest.mark.parametrize(
    ("device_type", "model"),
    [
        ("discrete", DISCRETE),
        ("integrated", INTEGRATED),
        ("cpu", CPU),
        ("virtual", UNKNOWN),
        ("other", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_target_has_the_description_of_its_kind(device_type: str, model: DeviceModel) -> None:
    assert DeviceModel.of(target(device_type)) == model
    assert TargetLimits.of(target(device_type, supports_float16=True)).device == model
    assert DeviceModel.of(Target("llvm")) == UNKNOWN


def test_what_the_device_tells_takes_the_place_of_what_was_assumed() -> None:
    told = DeviceModel.of(target("integrated", "compute_units_16", thread_warp_size=64))
    assert (told.units.count, told.units.lanes, told.source) == (16, 64, TOLD)
    assert told.units_of(told.gemm) is told.units
    assert told.enough == INTEGRATED.enough.scaled(8, 16)
    assert told.rates == INTEGRATED.rates


def test_amds_cards_have_the_costs_of_amds_waves() -> None:
    """A GPU of memory of its own is no H200 where its subgroups are waves of 64."""
    card = DeviceModel.of(target("discrete", "compute_units_96", thread_warp_size=64))
    for costs in ("gemm", "coopmat", "direct_conv"):
        assert getattr(card, costs) == getattr(INTEGRATED, costs)
    assert (card.kind, card.source) == ("discrete", TOLD)
    assert (card.units.count, card.units.lanes) == (96, 64)
    assert card.rates is not None and DISCRETE.rates is not None and INTEGRATED.rates is not None
    assert INTEGRATED.rates.bandwidth < card.rates.bandwidth < DISCRETE.rates.bandwidth
    assert card.split_k == card.rates.split_k and not card.measured
    for lanes in (1, 8, 16, 32):  # NVIDIA's, and what was told nothing
        assert DeviceModel.of(target("discrete", thread_warp_size=lanes)) == DISCRETE


def test_intels_cards_have_the_costs_of_its_integrated_gpus() -> None:
    made = target("discrete", "compute_units_32", "least_lanes_8", thread_warp_size=32)
    other = DeviceModel.of(
        target("integrated", "compute_units_32", "least_lanes_8", thread_warp_size=32)
    )
    card = DeviceModel.of(made)
    for costs in ("gemm", "coopmat", "direct_conv", "packed_gemm"):
        assert getattr(card, costs) == getattr(other, costs)
    assert (card.kind, card.units.count) == ("discrete", 32)
    assert card.packed_fp16 and card.selects_loads
    assert card.rates is not None and card.split_k == card.rates.split_k != other.split_k
    assert TargetLimits.of(made).wide_subgroup == 32
    for keys in ((), ("least_lanes_32",)):  # NVIDIA's has one width
        assert DeviceModel.of(target("discrete", *keys, thread_warp_size=32)) == DISCRETE


def test_packed_products_of_hardware_threads_have_lanes_and_registers_of_their_own() -> None:
    """A register of Intel's holds as many halves as twice the narrowest subgroup has lanes."""
    keys = ("compute_units_6", "least_lanes_8")
    limits = TargetLimits.of(
        target("integrated", *keys, thread_warp_size=32, supports_float16=True)
    )
    model = limits.device
    costs = model.packed_gemm
    assert costs is not None and costs.units is not None
    assert (model.packed_lanes, costs.units.lanes, costs.units.count) == (16, 16, 6)
    assert model.gemm_costs(fp16=True) == costs and model.gemm_costs(fp16=False) == model.gemm
    off = dataclasses.replace(model, packed_fp16=False)
    assert off.gemm_costs(fp16=True) == model.gemm
    for m, n, k in PRODUCTS:
        for tile in gemm_cost.candidates(Product(1, m, n, k, fp16=True), limits):
            assert gemm_pipelines.fits_registers(tile, costs)
            assert tile.outputs_of_thread <= 16  # of 32 the driver spills
        wide = gemm_cost.candidates(Product(1, m, n, k), limits)
        assert any(tile.outputs_of_thread == 32 for tile in wide)
    # Measured to be no faster than float32, halves are left as they were.
    slow = target(
        "integrated", *keys, "measured_mflops_2000000", "measured_fp16_mflops_2000000",
        thread_warp_size=32,
    )  # fmt: skip
    assert model.packed_fp16 and not DeviceModel.of(slow).packed_fp16


def test_a_unit_holds_no_more_workgroups_than_it_has_barriers_for() -> None:
    units = Units(6, 16, 16, threads=1792, shared_bytes=131072, registers=1 << 20, groups=16)
    assert resident_groups(32, 768, 64, units) == 16
    assert resident_groups(256, 768, 64, units) == 7
    assert resident_groups(32, 768, 64, dataclasses.replace(units, groups=0)) > 16


@pytest.mark.parametrize("key", ["compute_units_0", "compute_units_", "compute_units_x", "units_9"])
def test_a_key_that_tells_no_units_changes_nothing(key: str) -> None:
    assert DeviceModel.of(target("integrated", key)) == INTEGRATED


@pytest.mark.parametrize("device_type", ["discrete", "cpu", ""])
def test_fitted_numbers_hold_together(device_type: str) -> None:
    """So a discrete GPU has the kernels that were measured, whatever its own units."""
    told = target(device_type, "compute_units_20", thread_warp_size=8)
    assert DeviceModel.of(told) == DeviceModel.of(target(device_type))


def test_a_device_names_its_units_in_its_target() -> None:
    from tvm_vision import vulkan

    made = Target({"kind": "vulkan", "from_device": 0})
    units = vulkan.devices()[0].compute_units
    assert numbers_in(made.keys).get(COMPUTE_UNITS, 0) == units


@pytest.mark.parametrize(("units", "keys"), [(0, []), (8, ["compute_units_8"])])
def test_keys_of_a_device_that_tells_its_units(
    units: int, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_vision.vulkan import target as module

    shape = (16, 16, 16, "float16", "float16", "float32", "float32")
    device = {
        "compute_units": units,
        "cooperative_matrix_shapes": [shape],
        "vendor_id": 0x1002,
        "type": "integrated",
        "min_subgroup_size": 32,
        "driver_name": "radv",
    }
    monkeypatch.setattr(module.tvm_ffi, "get_global_func", lambda name: lambda: [device])
    assert module.device_keys(0) == [*keys, "cooperative_matrix_16x16x16"]


@pytest.mark.parametrize(
    ("vendor", "of_type", "lanes", "used"),
    [
        (0x8086, "integrated", 8, False),  # Tiger Lake to Meteor Lake
        (0x8086, "integrated", 16, True),  # Lunar Lake
        (0x8086, "discrete", 8, False),  # Arc's first cards, whose registers do not suffice
        (0x8086, "discrete", 16, True),  # and its second
        (0x1002, "integrated", 32, True),
        (0x10005, "cpu", 8, True),  # lavapipe, which emulates all
    ],
)
def test_matrices_that_a_driver_writes_out_are_left_alone(
    vendor: int, of_type: str, lanes: int, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_vision.vulkan import target as module

    shape = (8, 8, 16, "float16", "float16", "float32", "float32")
    device = {
        "compute_units": 0,
        "cooperative_matrix_shapes": [shape],
        "vendor_id": vendor,
        "type": of_type,
        "min_subgroup_size": lanes,
        "driver_name": "a driver",
    }
    monkeypatch.setattr(module.tvm_ffi, "get_global_func", lambda name: lambda: [device])
    keys = [f"least_lanes_{lanes}"] if vendor == 0x8086 else []
    keys += ["cooperative_matrix_8x8x16"] if used else []
    assert module.device_keys(0) == keys and all(map(is_key, keys))


@pytest.mark.parametrize(("driver", "few"), [("SwiftShader driver", True), ("llvmpipe", False)])
def test_a_driver_that_branches_are_too_many_for(driver: str, few: bool) -> None:
    device: dict[str, Any] = {"driver_name": driver, "cooperative_matrix_shapes": []}
    device |= {"vendor_id": 0x1AE0, "type": "cpu", "min_subgroup_size": 4}
    keys = keys_of(device)
    assert (FEW_BRANCHES in keys) is few and all(map(is_key, keys))
    target = Target({"kind": "vulkan", "keys": ["vulkan", "gpu", *keys], "device_type": "cpu"})
    assert TargetLimits.of(target).selects_loads is few
    assert not TargetLimits.of(target, CompileOptions.of({"guarded_loads": "branch"})).selects_loads


@pytest.mark.parametrize("shape", PRODUCTS)
def test_a_gpu_of_few_units_needs_no_small_tiles_but_room_for_several(
    shape: tuple[int, int, int],
) -> None:
    """Eight units are occupied by fewer workgroups than 132, and share less memory each."""
    few, many = (gemm_cost.default(Product(1, *shape), limits) for limits in (SMALL, LARGE))
    assert few.m * few.n >= many.m * many.n
    assert few.shared_bytes <= many.shared_bytes or few.m * few.n > many.m * many.n
    assert 2 * few.merged_bytes(4) <= INTEGRATED.units.shared_bytes


def test_the_fitted_model_leaves_a_small_gpu_one_workgroup_a_unit() -> None:
    """Why integrated GPUs have a description of their own."""
    late = gemm_cost.default(Product(1, 512, 49, 4608), LIMITS)
    assert 2 * late.shared_bytes > INTEGRATED.units.shared_bytes


def _enough(limits: TargetLimits) -> list[bool]:
    """For work that lies between what occupies 8 units and 132: whether it is enough."""
    few_rows = reduction_candidates(RowSums((1 << 13,), 64, True), limits)
    return [
        elementwise_default(Outputs((1 << 15,)), limits) == ElementwiseShape(256, 4),
        window_default(WindowSum((1 << 14,), False), limits).along == 4,
        window_default(WindowSum((1 << 13,), True), limits).along == 4,
        winograd_default(Tiles(1 << 11, False), limits).threads == 128,
        parts_of(4608, 100, limits.device) == [1],
        not few_rows,
        RowShape(32, 32, True) not in reduction_candidates(RowSums((2048,), 4096, True), limits),
    ]


def test_less_work_occupies_fewer_units() -> None:
    assert _enough(SMALL) == [True] * 7
    assert _enough(LARGE) == _enough(LIMITS) == [False] * 7
    assert LARGE.device.enough.groups == pytest.approx(DISCRETE.enough.groups, rel=0.05)
    # Of a product; where only other workgroups hide latency, more of them.
    assert LARGE.device.enough.tiles > DISCRETE.enough.tiles
    assert min(dataclasses.astuple(DISCRETE.enough.scaled(132, 1))) >= 1


@pytest.mark.parametrize(
    ("of_type", "lanes", "options", "cuts"),
    [
        ("discrete", 32, {}, True),
        ("discrete", 32, {"split_k": False}, False),
        ("integrated", 64, {}, True),
        ("integrated", 64, {"split_k": False}, False),
        ("integrated", 32, {}, False),  # Intel's: no model tells what it costs there
        ("cpu", 8, {}, False),
        ("", 32, {}, False),
    ],
)
def test_where_sums_are_cut_without_a_tuner(
    of_type: str, lanes: int, options: dict[str, Any], cuts: bool
) -> None:
    made = target(of_type, thread_warp_size=lanes)
    assert TargetLimits.of(made, CompileOptions.of(options)).split_k is cuts


def test_a_cut_sum_costs_a_launch_and_its_parts_way_through_memory() -> None:
    """A long product of few results: parts where memory is as fast as described, none where a
    launch or the memory's way takes longer than what is gained."""

    def parts(**rates: float) -> int:
        told = DeviceModel.of(target("integrated", "compute_units_8", thread_warp_size=64))
        assert told.rates is not None
        costs = dataclasses.replace(told.rates, **rates).split_k
        limits = TargetLimits(
            1024, 32768, 64, split_k=True, device=dataclasses.replace(told, split_k=costs)
        )
        return gemm_cost.default(Product(1, 128, 49, 16384, windows="n", fp16=True), limits).split_k

    assert parts() > 1
    assert parts(launch=1e-3) == parts(bandwidth=1e8) == 1


def test_what_was_measured_is_read_by_the_cost_of_a_cut() -> None:
    told = DeviceModel.of(
        target(
            "integrated", "measured_mflops_2000000", "measured_mb_s_20000",
            "measured_launch_ns_4000", "compute_units_8", thread_warp_size=64,
        )
    )  # fmt: skip
    assert told.rates is not None and told.split_k == told.rates.split_k
    assert told.split_k.total == pytest.approx(4e-6 * told.rates.clock)
    assert told.split_k.part == pytest.approx(8 / 20e9 * told.rates.clock)


WORK: list[tuple[Any, Any, Any]] = [
    (gemm_cost, GemmTile(32, 32, 32), Product(1, 512, 3136, 576)),
    (coopmat_gemm_cost, CoopmatTile(64, 64, 32, 2, 2), Product(1, 512, 3136, 576, FP16)),
    (direct_conv_cost, DirectConvTile(4, 32, 32, 2, 1, 2), Windows(1, 104, 104, 64, 64, (3, 3))),
]


@pytest.mark.parametrize(("module", "tile", "shape"), WORK)
def test_every_estimate_takes_the_device(module: Any, tile: Any, shape: Any) -> None:
    def seconds(units: int) -> float:
        return float(module.cycles(tile, shape, INTEGRATED.with_units(units)))

    assert seconds(4) > seconds(8) > seconds(64)
    fitted = module.cycles(tile, shape, DISCRETE)
    assert module.cycles(tile, shape, dataclasses.replace(CPU, kind="other")) == fitted


def test_costs_of_a_fit_go_with_its_units() -> None:
    """What was fitted, number by number: benchmarks/schedules says to which measurements."""
    for model in (DISCRETE, CPU, UNKNOWN):
        assert model.source == FITTED
        costs = (model.gemm, model.coopmat, model.direct_conv)
        assert [model.units_of(each).count for each in costs] == [132, 98, 132]
    assert INTEGRATED.source == ASSUMED
    for each in (INTEGRATED.gemm, INTEGRATED.coopmat, INTEGRATED.direct_conv):
        assert INTEGRATED.units_of(each) is INTEGRATED.units


@pytest.mark.parametrize(
    ("groups", "threads", "shared", "registers", "resident"),
    [
        (10_000, 256, 1024, 0, 8),  # by threads
        (10_000, 128, 16384, 0, 4),  # by shared memory
        (10_000, 256, 1024, 128, 2),  # by registers
        (20, 64, 1024, 0, 3),  # by what there is
        (10_000, 4096, 1024, 0, 1),
    ],
)
def test_workgroups_that_a_unit_holds(
    groups: int, threads: int, shared: int, registers: int, resident: int
) -> None:
    units = Units(8, schedulers=4, lanes=32, threads=2048, shared_bytes=65536)
    assert units.resident(groups, threads, shared, registers) == resident


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


# What only some devices have: 0 in the others, which says so.
MAY_LACK = {
    "groups", "most", "packed_lanes", "queue", "queue_window", "shared", "sums", "unpack",
}  # fmt: skip


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_descriptions_are_whole(kind: str) -> None:
    assert DESCRIPTIONS[kind].kind == kind
    assert hash(DESCRIPTIONS[kind]) == hash(dataclasses.replace(DESCRIPTIONS[kind]))
    for name, number in _numbers(DESCRIPTIONS[kind]):
        assert number > 0 or (number == 0 and name.split(".")[-1] in MAY_LACK), name


def test_every_field_is_explained() -> None:
    for name, thing in vars(device_model).items():
        if dataclasses.is_dataclass(thing) and isinstance(thing, type):
            said = str(thing.__doc__)
            for field in dataclasses.fields(thing):
                assert re.search(rf"^ +(\w+, )*{field.name}(, \w+)*: ", said, re.M), (name, field)


def test_nobody_else_has_numbers_of_a_device() -> None:
    """Constants of units, cycles and rates stand in device_model.py alone."""
    package = Path(tvm_vision.__file__).parent
    device = re.compile(r"(UNITS|CYCLES|LANES|SCHEDULERS|RATES|ENOUGH|BANDWIDTH|FLOPS)\w*$|UNIT_")
    known = {"device_model.py", "tiles.py"}  # the latter: what a processor's own kernels cost
    for path in (*package.glob("schedules/*.py"), *package.glob("compiler/*.py")):
        if path.name in known:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            for name in node.targets if isinstance(node, ast.Assign) else ():
                found = isinstance(name, ast.Name) and device.search(name.id)
                assert not found, f"{path.name}: {ast.unparse(node)}"


@pytest.mark.parametrize(("lanes", "amd"), [(8, False), (16, False), (32, False), (64, True)])
def test_what_was_found_for_waves_of_64_counts_for_these(lanes: int, amd: bool) -> None:
    """Of narrower ones whose driver tells no narrowest nothing is known."""
    model = DeviceModel.of(
        Target({"kind": "vulkan", "device_type": "integrated", "thread_warp_size": lanes})
    )
    assert model.packed_fp16 == amd
    assert isinstance(model.gemm, PipelineCosts) == amd
    assert model.selects_loads
