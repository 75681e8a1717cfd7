"""What the compiler takes a device for: one description that every estimate reads.

Descriptions are data, one a kind of device (Vulkan's device types); ``DeviceModel.of`` takes the
one of a target's kind and puts in what the target tells. What a device measures of itself can go
the same way: ``dataclasses.replace`` of a description.

The costs of the tile models come with the units that they were fitted with: both hold together, and
for no other device. So fitted descriptions stay as they are, and where costs name no units they go
with those of the device. ``benchmarks/fit_costs.py`` fits costs again. The measurements behind the
present ones are described in benchmarks/schedules; most of the timings themselves were not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from tvm.target import Target

from ...target_keys import (
    BANDWIDTH,
    COMPUTE_UNITS,
    DP4A,
    FLOPS,
    FLOPS_FP16,
    LAUNCH,
    LEAST_LANES,
    REGISTERS,
    SCHEDULERS,
    SHARED,
    THREADS,
    numbers_in,
)
from .tile_costs import (
    CoopmatCosts,
    DirectConvCosts,
    GemmCosts,
    MatrixPipelineCosts,
    PipelineCosts,
    SplitKCosts,
    TileCosts,
    Units,
    WinogradCosts,
)

# What INTEGRATED's rates assume as well: a third.
REACHED = 1 / 3
# Packed arithmetic is of use from so many times the rate of float32 on: it costs conversions.
LEAST_GAIN = 1.25
PART_BYTES = 8  # of a part of a result in float32, written and read
# Of a sum that is cut, where estimates are of what compilers make: they are off by less than times
# that nobody measured (benchmarks/static.md).
MODELLED_MARGIN = 1.05
FITTED, ASSUMED, TOLD = "fitted", "assumed", "told"


@dataclass(frozen=True)
class Enough:
    """How much work occupies a device: above it a thread or workgroup may do more by itself.

    Attributes:
        tiles: workgroups of a product that need no cut along k.
        groups: workgroups of sums; with fewer each may have more threads.
        rows: sums that need no more than a thread each.
        threads: threads of a window's kernel, from which on one computes several outputs.
        vectors: likewise where it computes them as one vector.
        outputs: of a kernel without sums, from which on a thread computes a vector of them.
        transforms: tiles of Winograd's transforms that are enough for larger workgroups.
    """

    tiles: int
    groups: int
    rows: int
    threads: int
    vectors: int
    outputs: int
    transforms: int

    def scaled(self, units: int, to: int) -> Enough:
        """As many for each of ``to`` units as these are for each of ``units``, 1 at least."""
        numbers = {each.name: getattr(self, each.name) for each in fields(self)}
        return Enough(**{name: max(1, round(n * to / units)) for name, n in numbers.items()})


@dataclass(frozen=True)
class Rates:
    """What kernels of a device reach, whole; not what a data sheet says.

    Attributes:
        flops: of a product of float32, a second.
        bandwidth: bytes of memory a second.
        launch: seconds from one kernel that waits for another to the next.
        clock: cycles a second, of which estimates of tiles speak.
        fp16: multiply-adds of packed float16 for one of float32 in the same time.
        dp4a: and dot products of four bytes.
    """

    flops: float
    bandwidth: float
    launch: float
    clock: float
    fp16: float = 2.0
    dp4a: float = 1.0

    @property
    def split_k(self) -> SplitKCosts:
        """Of a sum that workgroups share: one more launch, parts to memory and back."""
        part = PART_BYTES * self.clock / self.bandwidth
        return SplitKCosts(self.launch * self.clock, part, MODELLED_MARGIN)

    def measured(self, told: Mapping[str, int]) -> Rates:
        """The same with what a calibration told (``tvm_vision.target_keys``).

        Kernels of products reach REACHED of the multiply-adds that a device can do.
        """
        return Rates(
            flops=told[FLOPS] * 1e6 * REACHED if FLOPS in told else self.flops,
            bandwidth=told[BANDWIDTH] * 1e6 if BANDWIDTH in told else self.bandwidth,
            launch=told[LAUNCH] * 1e-9 if LAUNCH in told else self.launch,
            clock=self.clock,
            fp16=_ratio(told, FLOPS_FP16, FLOPS, self.fp16),
            dp4a=_ratio(told, DP4A, FLOPS, 4 * self.dp4a) / 4,
        )


def _ratio(told: Mapping[str, int], one: str, other: str, otherwise: float) -> float:
    return told[one] / told[other] if one in told and other in told else otherwise


@dataclass(frozen=True)
class DeviceModel:
    """A device, as far as estimates need to know it.

    Attributes:
        kind: which description it is: "discrete", "integrated", "cpu" or "unknown".
        source: of ``units``: FITTED to measurements, ASSUMED, or TOLD by the device.
        units: what runs workgroups.
        enough: work that occupies the units.
        rates: of the whole device; None where it makes no sense to compare kernels by them.
        gemm, coopmat, direct_conv, split_k: cycles of the tile models.
        selects_loads: loads under a condition are faster without a branch.
        selects_window_loads: those of windows are, of which a thread has many.
        packed_fp16: two values of fp16 are multiplied and added like one of float32.
        pick: cycles of a scheduler to find neighbours in one of several tensors, for each but the
            first; where products are not those of ``PipelineCosts``, which have their own.
        wide_subgroups: the driver chooses the lanes of subgroups, and wide ones are faster where
            their registers suffice.
        cuts_sums: products may leave partial sums to a second kernel without a tuner's word.
        attends_plainly: attention without matrices is one kernel (gpu/plain_attention.py).
        packed_gemm: cycles of products of fp16 that are added up in fp16; None for those of
            ``gemm``.
        packed_lanes: lanes of subgroups for which these hold; 0 where the driver has no choice.
        winograd: cycles of Winograd's convolution as one kernel; None where it is not known.
    """

    kind: str
    source: str
    units: Units
    enough: Enough
    rates: Rates | None
    gemm: GemmCosts | PipelineCosts
    coopmat: CoopmatCosts | MatrixPipelineCosts
    direct_conv: DirectConvCosts | MatrixPipelineCosts
    split_k: SplitKCosts
    selects_loads: bool = False
    selects_window_loads: bool = False
    packed_fp16: bool = False
    pick: float = 90.0
    wide_subgroups: bool = False
    cuts_sums: bool = False
    attends_plainly: bool = False
    packed_gemm: PipelineCosts | None = None
    packed_lanes: int = 0
    winograd: WinogradCosts | None = None

    @property
    def measured(self) -> bool:
        """Whether kernels were timed on such a device: what these are then stays."""
        return self.source == FITTED

    @classmethod
    def of(cls, target: Target) -> DeviceModel:
        """The description of a target's kind, with what the target tells of its units.

        Fitted descriptions keep their units: these hold together with the costs. What a
        calibration measured counts wherever kernels are compared by rates.
        """
        model = DESCRIPTIONS.get(str(target.attrs.get("device_type", "")), UNKNOWN)
        told = numbers_in(target.keys)
        lanes = int(target.attrs.get("thread_warp_size", 1))
        if model is INTEGRATED and 1 < lanes < GCN_LANES:
            model = INTEGRATED_NARROW
        if model is DISCRETE and lanes == GCN_LANES:
            model = DISCRETE_WAVES
        least = told.get(LEAST_LANES, lanes)
        if least < lanes:
            model = {"discrete": DISCRETE_XE, "integrated": INTEGRATED_XE}.get(model.kind, model)
            model = replace(model, packed_lanes=2 * least if model.packed_gemm else 0)
        model = replace(model, rates=model.rates and model.rates.measured(told))
        if model.source == FITTED:
            return model
        if lanes > 1:  # 1 is what a target has that was told nothing
            model = replace(model, units=replace(model.units, lanes=lanes))
        units = replace(
            model.units,
            schedulers=told.get(SCHEDULERS, model.units.schedulers),
            threads=told.get(THREADS, model.units.threads),
            registers=told.get(REGISTERS, model.units.registers),
        )
        model = replace(model, units=units)
        count = told.get(COMPUTE_UNITS)
        return (model.with_units(count) if count else model)._measured(told)

    def _measured(self, told: Mapping[str, int]) -> DeviceModel:
        """The same, where costs are those of pipelines, with what these were found to do.

        Its clock is that at which its units would do the multiply-adds that were measured.
        """
        costs, of_packed, rates = self.gemm, self.packed_gemm, self.rates
        if rates is None or FLOPS not in told:
            return self
        packed = self.packed_fp16 and rates.fp16 >= LEAST_GAIN
        if not isinstance(costs, PipelineCosts):
            return replace(self, packed_fp16=packed)
        clock = told[FLOPS] * 1e6 / (2 * self.units.count * costs.width)
        if SHARED in told:
            shared = max(1, round(told[SHARED] * 1e6 / (self.units.count * clock)))
            costs = replace(costs, shared_rate=shared)
            of_packed = of_packed and replace(of_packed, shared_rate=shared)
        rates = replace(rates, clock=clock)
        return replace(
            self, gemm=costs, packed_gemm=of_packed, rates=rates, packed_fp16=packed,
            split_k=rates.split_k,
        )  # fmt: skip

    def with_units(self, count: int) -> DeviceModel:
        """The same with so many units, 1 at least, and with what occupies these."""
        packed = self.packed_gemm
        if packed is not None and packed.units is not None:
            packed = replace(packed, units=replace(packed.units, count=count))
        return replace(
            self,
            source=TOLD,
            units=replace(self.units, count=count),
            enough=self.enough.scaled(self.units.count, count),
            packed_gemm=packed,
        )

    def gemm_costs(self, fp16: bool) -> GemmCosts | PipelineCosts:
        """Those of a product; fp16: of factors of float16 that are added up in float32."""
        packed = self.packed_gemm if fp16 and self.packed_fp16 else None
        return packed or self.gemm

    def units_of(self, costs: TileCosts) -> Units:
        """The units that costs hold with."""
        return costs.units or self.units


# Fitted to 895 products of float32 that fetch ahead, on an H200; ``step``, ``sliced`` and
# ``narrow`` chosen by 1,160 of convolutions and other products besides
# (benchmarks/schedules/products.md, "Tiles of float32, estimated anew"). Words of bytes
# were not measured.
GEMM = GemmCosts(
    units=None,
    fetch=161.0,
    quad=38.0,
    shared=0.0,
    row=1.0,
    column=14.5,
    multiply=0.65,
    step=30.0,
    sliced=1.1,
    narrow=1.15,
    start=765.0,
    slice=16.0,
    group=88.0,
    output=19.0,
    registers=40,
    split_k=SplitKCosts(total=1500.0, part=0.006, margin=1.0),
)
# Of narrower subgroups than AMD's, of which no GPU was measured: fitted to 1,532 products of an
# H200 before these fetched ahead, on 32 units (benchmarks/schedules/README.md, "Versions on the
# way").
# Intel's compiler makes slower kernels of the tiles that the costs above choose
# (benchmarks/static.md).
NARROW = GemmCosts(
    units=None,
    fetch=480.0,
    quad=10.0,
    shared=145.0,
    row=0.8,
    column=0.8,
    multiply=0.5,
    step=0.0,
    sliced=1.0,
    narrow=1.0,
    start=590.0,
    slice=18.0,
    group=23.0,
    output=20.0,
    registers=0,
)
# What an H200's driver gives the workgroups of a unit together, whatever the chip has
# (benchmarks/schedules/products.md, "Shared memory of a unit").
SHARED_AT_ONCE = 48 << 10
# Fitted to 672 kernels on an H200 (benchmarks/schedules/products.md, "Halves"). That bytes are
# multiplied twice as fast was not fitted.
COOPMAT = CoopmatCosts(
    units=Units(98, schedulers=4, lanes=32, threads=2048, shared_bytes=SHARED_AT_ONCE),
    step=250.0,
    fetch=45.0,
    together=1.2,
    byte=0.04,
    product=20.0,
    start=4300.0,
    output=27.0,
    # Chosen by 1,164 timings of 34 products (benchmarks/schedules/products.md, "Subtiles").
    # That subtiles take less by themselves was their shared memory, which counts since.
    subtiles=1.0,
    subtiles_split_k=1.2,
    # Chosen by 119 timings of 5 products and 856 of 10 others, which 1.05 to 1.3 fit alike
    # (benchmarks/schedules/products.md, "Large tiles").
    large=1.15,
)
# Eight of them fitted to 70 timings of 45 kernels on an H200, many tiles of three layers and one of
# others (benchmarks/schedules/convolutions.md, "Convolutions out of a halo"). Not fitted: units,
# ``wait`` and ``multiply``, which the measurements hardly tell from the others; ``byte`` is
# COOPMAT's. ``together`` and ``memory`` chosen anew by 272 timings of 11 large layers ("Large
# convolutions").
DIRECT_CONV = DirectConvCosts(
    units=Units(132, schedulers=4, lanes=32, threads=2048, shared_bytes=SHARED_AT_ONCE),
    start=2600.0,
    step=170.0,
    fetch=115.0,
    weight=27.0,
    together=2.0,
    byte=COOPMAT.byte,
    load=3.9,
    memory=75.0,
    output=11.0,
    wait=500.0,
    multiply=8.0,
)
# Not fitted: two microseconds, and none of the parts was measured.
SPLIT_K = SplitKCosts(total=4300.0, part=0.006, margin=1.15)
# Not fitted: chosen by hand, on an H200.
ENOUGH = Enough(
    tiles=256,
    groups=128,
    rows=32768,
    threads=65536,
    vectors=16384,
    outputs=131072,
    transforms=16384,
)
# An H200. Its rates are chosen, not fitted: between what its kernels reach and what smaller cards
# have for each FLOP/s (benchmarks/kernels.md, "Winograd's convolution"). ``launch`` was measured:
# 1.9 µs (benchmarks/results/nvidia-h200.json, "ceilings").
DISCRETE = DeviceModel(
    kind="discrete",
    source=FITTED,
    units=Units(132, schedulers=4, lanes=32, threads=2048, shared_bytes=SHARED_AT_ONCE),
    enough=ENOUGH,
    rates=Rates(flops=12e12, bandwidth=2e12, launch=2e-6, clock=1.9e9),
    gemm=GEMM,
    coopmat=COOPMAT,
    direct_conv=DIRECT_CONV,
    split_k=SPLIT_K,
    selects_window_loads=True,
    cuts_sums=True,
    attends_plainly=True,
)
# Fitted to the assembly that Mesa's compiler makes of 2,423 products of float32 for AMD's GCN 5,
# not to time (benchmarks/static.md). The rates of memory and shared memory are the vendor's.
GCN = PipelineCosts(
    units=None,
    width=64,
    shared_rate=128,
    memory_rate=64,
    multiply=1.08,
    convert=2.0,
    load=3.7,
    window=20.0,
    step=6.0,
    output=2.0,
    chain=1.22,
    fetch=620.0,
    shared=68.0,
    start=20.0,
    pick=16.0,
    registers=29.0,
    edge=1.9,
    sums=1.0,
    element=4,
)
# Of fp16 that is added up in fp16: two sums lie in a register until they are converted.
GCN_PACKED = replace(
    GCN, chain=1.44, fetch=240.0, shared=72.0, start=220.0, registers=12.0, edge=5.2, sums=0.0,
    element=2,
)  # fmt: skip
# By the assembly of ten layers for AMD's GCN 5 and RDNA3 (benchmarks/static.md); nobody timed it.
GCN_WINOGRAD = WinogradCosts(transform=84.0, wait=1300.0, start=600.0, registers=12.0, sums=3.25)
# Fitted to the assembly that Mesa's compiler makes of 537 convolutions out of a halo, and 246
# products, for AMD's RDNA3, not to time (benchmarks/static.md). Each of 16 lanes holds a row of a
# factor, and the other lanes of a wave hold copies: that is how its instruction takes them.
RDNA3_DIRECT = MatrixPipelineCosts(
    units=None,
    shared_rate=128,
    memory_rate=128,
    product=31.6,
    load=2.2,
    fetch=1.0,
    window=36.0,
    step=14.0,
    output=8.4,
    start=290.0,
    chain=1.3,
    wait=1070.0,
    stop=526.0,
    begin=2200.0,
    holders=16,
    registers=31.0,
    sums=1.25,
    factors=0.83,
    vectors=2.7,
    ahead=0.9,
    most=256,
)
RDNA3_GEMM = replace(
    RDNA3_DIRECT,
    product=27.0,
    load=9.0,
    fetch=8.4,
    window=45.0,
    step=1.0,
    output=6.7,
    start=14.0,
    chain=1.53,
    wait=100.0,
    stop=63.0,
    begin=660.0,
    registers=15.5,
    sums=2.0,
    factors=0.85,
    vectors=4.1,
)
# Lanes of waves of AMD's, and of Adreno's at least.
GCN_LANES = 64
# Waves hide latency by each other alone, so that a unit wants more workgroups of a product than the
# two that a discrete GPU's had for each.
_OF_8_UNITS = ENOUGH.scaled(DISCRETE.units.count, 8)
_WAVES_OF_8_UNITS = replace(_OF_8_UNITS, tiles=64)
_SHARED_MEMORY = Rates(flops=0.9e12, bandwidth=40e9, launch=10e-6, clock=1.9e9)
# AMD's of 8 units, whose shared memory and threads Intel's Xe cores have in much the same numbers;
# nobody measured one. Rates: a third of the arithmetic of 24 to 96 units of Intel's or 8 of AMD's,
# and a memory shared with the processor.
INTEGRATED = DeviceModel(
    kind="integrated",
    source=ASSUMED,
    units=Units(8, schedulers=4, lanes=32, threads=2560, shared_bytes=65_536),
    enough=_WAVES_OF_8_UNITS,
    rates=_SHARED_MEMORY,
    gemm=GCN,
    packed_gemm=GCN_PACKED,
    winograd=GCN_WINOGRAD,
    coopmat=RDNA3_GEMM,
    direct_conv=RDNA3_DIRECT,
    split_k=_SHARED_MEMORY.split_k,
    selects_loads=True,
    packed_fp16=True,
    cuts_sums=True,
    attends_plainly=True,
)
# Of narrower subgroups: the tiles that are good for waves, and packed sums, make Intel's compiler
# spill (benchmarks/static.md).
INTEGRATED_NARROW = replace(
    INTEGRATED,
    gemm=NARROW,
    packed_gemm=None,
    winograd=None,
    coopmat=replace(COOPMAT, units=None),
    direct_conv=replace(DIRECT_CONV, units=None),
    enough=_OF_8_UNITS,
    split_k=SPLIT_K,
    packed_fp16=False,
    wide_subgroups=True,
    cuts_sums=False,
    attends_plainly=False,
)
# Fitted to the machine code that Mesa's compiler makes of products of fp16 for Intel's Xe-LP in
# subgroups of 16, not to time (benchmarks/static.md). A hardware thread has 128 registers of 32
# bytes, which is 64 of 32 bits for each of 16 lanes; with a tile of 4x4 for a thread the driver
# counts 63 to 69 and spills none, with 8x4 it counts 110 and does. Eight lanes would have room for
# that, but they fill half of a register with halves, and gain nothing by them. Units: 16 execution
# units, each of seven hardware threads and eight lanes of float32.
XE_PACKED = PipelineCosts(
    units=Units(
        8, schedulers=16, lanes=16, threads=1792, shared_bytes=131_072, registers=1 << 20, groups=16
    ),
    width=128,
    shared_rate=128,
    memory_rate=64,
    multiply=1.0,
    convert=3.0,
    load=2.0,
    window=27.0,
    step=15.0,
    output=2.0,
    pick=16.0,
    chain=2.2,
    fetch=260.0,
    shared=92.0,
    start=0.0,
    registers=19.0,
    edge=0.0,
    sums=2.9,
    most=70,
    unpack=1.0,
    queue=370.0,
    queue_window=580.0,
)
# By the machine code of ten layers. A wave waits for each of its loads of a pixel, and stores.
XE_WINOGRAD = replace(GCN_WINOGRAD, wait=6000.0, most=XE_PACKED.most)
# Intel's, of which the driver tells the narrowest subgroups: its compiler chooses the lanes of a
# hardware thread, all of which share its registers.
INTEGRATED_XE = replace(
    INTEGRATED_NARROW,
    packed_fp16=True,
    packed_gemm=XE_PACKED,
    winograd=XE_WINOGRAD,
    split_k=_SHARED_MEMORY.split_k,
    cuts_sums=True,
)
# Intel's cards, likewise. Units, clock and memory are those of an Arc A770's data sheet (32 units,
# 2.4 GHz, 560 GB/s), of which as much as of AMD's is taken to be reached; a launch as above.
_XE_CARD = Rates(flops=6.5e12, bandwidth=373e9, launch=10e-6, clock=2.4e9)
DISCRETE_XE = replace(
    INTEGRATED_XE,
    kind="discrete",
    units=replace(INTEGRATED_XE.units, count=32),
    enough=_OF_8_UNITS.scaled(8, 32),
    rates=_XE_CARD,
    split_k=_XE_CARD.split_k,
)
# AMD's cards, whose waves, matrices and registers are those of its integrated GPUs; nobody measured
# one. Units, clock and memory are those of a Radeon RX 7800 XT's data sheet (60 units, 2.4 GHz, 624
# GB/s), of which two thirds of the bandwidth and a third of the arithmetic are taken to be reached.
# A launch is what machines.py assumes.
_CARD = Rates(flops=6.1e12, bandwidth=416e9, launch=5e-6, clock=2.4e9)
DISCRETE_WAVES = replace(
    INTEGRATED,
    kind="discrete",
    units=replace(INTEGRATED.units, count=60),
    enough=_WAVES_OF_8_UNITS.scaled(8, 60),
    rates=_CARD,
    split_k=_CARD.split_k,
)
# On processors Vulkan is for tests, and of a target that names no kind nothing is known: what is
# compiled is what a discrete GPU gets, but Winograd's convolution, sums in two kernels and one
# kernel for attention without matrices are no gains that one may count on.
CPU = replace(DISCRETE, kind="cpu", rates=None, cuts_sums=False, attends_plainly=False)
UNKNOWN = replace(CPU, kind="unknown")
DESCRIPTIONS = {model.kind: model for model in (DISCRETE, INTEGRATED, CPU)}
