"""What workgroups run on, and what tiles cost there, in cycles: the numbers that estimates read.

The numbers themselves are those of a device (device_model.py); each estimate says how it uses them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Units:
    """The parts of a device that run workgroups: NVIDIA's SM, AMD's CU, Intel's Xe core.

    Attributes:
        count: units.
        schedulers: of a unit; each issues for ``lanes`` threads at once.
        lanes: threads that run in lockstep.
        threads: most threads that a unit holds at once.
        shared_bytes: bytes of shared memory that the workgroups of a unit have together.
        registers: of 32 bits, that the threads of a unit have together.
        groups: most workgroups that a unit holds at once; 0 where nothing but the rest bounds them.
    """

    count: int
    schedulers: int
    lanes: int
    threads: int
    shared_bytes: int
    registers: int = 65536
    groups: int = 0

    def resident(self, groups: int, threads: int, shared_bytes: int, registers: int = 0) -> int:
        """Workgroups that a unit holds at once, 1 at least.

        Args:
            groups: of the whole kernel.
            threads: of a workgroup, in whole ``lanes``.
            shared_bytes: of a workgroup.
            registers: of a thread; 0 where they are not the bound.
        """
        room = min(self.threads // threads, self.shared_bytes // shared_bytes)
        if registers:
            room = min(room, self.registers // (registers * threads))
        return max(1, min(-(-groups // self.count), room))


@dataclass(frozen=True)
class SplitKCosts:
    """Cycles of a sum that workgroups share (split_k.py).

    Attributes:
        total: of the second kernel, as any that waits for another.
        part: to write and read a part of a result.
        margin: times that the product, cut, is taken to last longer than estimated.
    """

    total: float
    part: float
    margin: float


@dataclass(frozen=True)
class GemmCosts:
    """Cycles of a matrix product of 32-bit numbers, or words of bytes (gemm.py).

    Attributes:
        units: that the costs were fitted with; None for those of the device.
        fetch: from the first load of a tile to the barrier after it, beyond its own work.
        quad: to find and load four neighbours of an image.
        shared: from a load of shared memory to its use, for four steps along k.
        row: to load four values of a thread's rows from shared memory.
        column: and of its columns.
        multiply: to multiply and add once.
        step: that others of the unit wait for each tile along k besides.
        sliced: where groups of threads share k, of their products and loads of shared memory over
            those of one group alone, a ratio.
        narrow: of a tile with fewer columns than a line of memory over what all this makes of it,
            a ratio.
        start: of a workgroup.
        slice: to begin to add up the sums of groups of threads.
        group: to add one of these sums.
        output: to write one output of a thread.
        registers: of a thread beside its outputs, their factors and what it fetches.
        split_k: of a sum that workgroups share; None for those of the device.
    """

    units: Units | None
    fetch: float
    quad: float
    shared: float
    row: float
    column: float
    multiply: float
    step: float
    sliced: float
    narrow: float
    start: float
    slice: float
    group: float
    output: float
    registers: int
    split_k: SplitKCosts | None = None


@dataclass(frozen=True)
class PipelineCosts:
    """A matrix product where pipelines fill and only other waves hide latency (gemm_pipelines.py).

    Attributes:
        units: None for those of the device; else their number is the device's.
        width: lanes for which a unit issues in a cycle, all schedulers together.
        shared_rate: bytes a cycle of a unit's shared memory.
        memory_rate: bytes a cycle between a unit and its nearest cache.
        multiply: instructions of a multiplication with its addition.
        convert: to convert a sum of fp16 and add it to one of float32.
        load: to find and load four neighbours.
        window: besides, where they are of an image that is read by windows.
        pick: and where they are of one of several tensors, for each but the first.
        step: of a tile along k, besides.
        output: of an output of a thread.
        chain: cycles of a wave by itself over those in which its instructions are issued.
        fetch: cycles of a tile along k that a wave waits for device memory and barriers.
        shared: and for shared memory, for four steps along k.
        start: cycles of a workgroup.
        registers: of a thread, whatever it computes.
        edge: and for each row and each column of its outputs.
        sums: and for each of its outputs.
        most: registers that a thread can have; 0 where more registers mean fewer waves.
        unpack: to take two halves out of a word, for each row and column, for a step along k.
        queue: cycles that a wave waits besides for each four neighbours that it fetches, where
            the compiler leaves loads and what stores their values in their order.
        queue_window: and where they are of an image that is read by windows.
        element: bytes of an element of the factors in shared memory, where what is not used at the
            same time shares its place; 0 where costs were fitted to four and a place for each.
    """

    units: Units | None
    width: int
    shared_rate: int
    memory_rate: int
    multiply: float
    convert: float
    load: float
    window: float
    pick: float
    step: float
    output: float
    chain: float
    fetch: float
    shared: float
    start: float
    registers: float
    edge: float
    sums: float = 0.0
    most: int = 0
    unpack: float = 0.0
    queue: float = 0.0
    queue_window: float = 0.0
    element: int = 0


@dataclass(frozen=True)
class WinogradCosts:
    """Winograd's convolution as one kernel, beside those of products (winograd_conv.py).

    Attributes:
        transform: instructions that find and transform a tile, for each step along the channels.
        wait: cycles of a step that a wave by itself waits for memory, shared memory and barriers.
        start: of a workgroup.
        registers: of a thread, whatever it computes.
        sums: and for each of its sums.
        most: registers that a thread can have; 0 where more registers mean fewer waves.
    """

    transform: float
    wait: float
    start: float
    registers: float
    sums: float
    most: int = 0

    def registers_of(self, sums: int) -> float:
        """Registers of a thread with so many sums, estimated."""
        return self.registers + self.sums * sums


@dataclass(frozen=True)
class CoopmatCosts:
    """Cycles of a product on cooperative matrices of fp16 (coopmat_gemm.py).

    Attributes:
        units: that the costs were fitted with; None for those of the device.
        step: from a barrier to the next but for the work below.
        fetch: a thread's eight fp16: to find, load and share them.
        together: how much of that others of the unit wait for, a ratio.
        byte: to bring a byte to the unit.
        product: a subgroup's product of 16x16x16, its operands loaded.
        start: of a workgroup.
        output: to write one output of a thread.
        subtiles: of a tile with subtiles over what all this makes of it, a ratio.
        subtiles_split_k: and where workgroups share its sum.
        large: of a tile of coopmat_gemm.LARGE elements or more besides, a ratio.
    """

    units: Units | None
    step: float
    fetch: float
    together: float
    byte: float
    product: float
    start: float
    output: float
    subtiles: float
    subtiles_split_k: float
    large: float


@dataclass(frozen=True)
class DirectConvCosts:
    """Cycles of a convolution out of a halo in shared memory, of fp16 (direct_conv.py).

    Attributes:
        units: that the costs were fitted with; None for those of the device.
        start: of a workgroup.
        step: from a barrier to the next but for the work below.
        fetch: a thread's eight numbers of the halo: to find, load and share them.
        weight: and of the weights, found without divisions.
        together: how much of either others of the unit wait for, a ratio.
        byte: to bring a byte to the unit.
        load: to load a matrix from shared memory.
        memory: and from device memory.
        output: to write one output of a thread.
        wait: for what was not fetched ahead.
        multiply: a subgroup's product of 16x16x16.
    """

    units: Units | None
    start: float
    step: float
    fetch: float
    weight: float
    together: float
    byte: float
    load: float
    memory: float
    output: float
    wait: float
    multiply: float


@dataclass(frozen=True)
class MatrixPipelineCosts:
    """A product or convolution on cooperative matrices where pipelines fill (matrix_pipelines.py).

    Cycles are those of a wave on its scheduler, unless they are waited for.

    Attributes:
        units: None: these costs hold with the units of the device.
        shared_rate: bytes a cycle of a unit's shared memory.
        memory_rate: bytes a cycle between a unit and its nearest cache.
        product: of a matrix with another, 16x16x16.
        load: to load a matrix from shared memory, beside the shared memory's own time.
        fetch: a thread's 16 bytes: to find, load and share them.
        window: and where they are of an image that is read by windows.
        step: from a tile along k to the next, besides.
        output: of an output of a thread.
        start: of a workgroup.
        chain: cycles of a wave by itself over those in which its instructions are issued.
        wait: cycles that a wave waits in each step.
        stop: and at each barrier behind a fetch.
        begin: and once.
        holders: lanes that hold a factor among them; all others hold copies.
        registers: of a thread, whatever it computes.
        sums: registers for each that its sums take.
        factors: and for each of its factors.
        vectors: and for each of what it fetches, which takes their place.
        ahead: and where that is fetched ahead.
        most: registers that a thread can have.
    """

    units: Units | None
    shared_rate: int
    memory_rate: int
    product: float
    load: float
    fetch: float
    window: float
    step: float
    output: float
    start: float
    chain: float
    wait: float
    stop: float
    begin: float
    holders: int
    registers: float
    sums: float
    factors: float
    vectors: float
    ahead: float
    most: int


TileCosts = GemmCosts | PipelineCosts | CoopmatCosts | DirectConvCosts | MatrixPipelineCosts
