"""Exports and compiles networks on all cores, a process for each step.

PyTorch and TVM bring libraries of the same names, so a process that exports never loads TVM.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from .networks import Network

PRECISIONS = ("fp32", "fp16")


@dataclass
class Prepared:
    """What became of a network.

    Attributes:
        failed: by precision why there is no package; all, where it cannot be exported.
        seconds: processor time of a compilation.
    """

    network: Network
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def prepare(networks: Sequence[Network], folder: Path) -> Iterator[Prepared]:
    """Each as soon as its packages are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    exports = list(_on_all_cores(_exported, networks, folder))
    yield from (found for found in exports if found.failed)
    yield from _on_all_cores(_compiled, [f.network for f in exports if not f.failed], folder)


def _on_all_cores(
    step: Callable[[Network, Path], Prepared], networks: Iterable[Network], folder: Path
) -> Iterator[Prepared]:
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=_one_thread) as pool:
        for job in as_completed([pool.submit(step, network, folder) for network in networks]):
            yield job.result()


def _one_thread() -> None:
    """Of each process, before it imports PyTorch: a step by itself would take all cores, and all of
    them together took five times as long."""
    os.environ["OMP_NUM_THREADS"] = "1"


def _exported(network: Network, folder: Path) -> Prepared:
    path = folder / f"{network.file}.onnx"
    if path.exists():
        return Prepared(network)
    try:
        network.export(path)
    except Exception as problem:  # the exporter raises every kind there is
        said = f"cannot be exported: {type(problem).__name__}"
        return Prepared(network, dict.fromkeys(PRECISIONS, said))
    return Prepared(network)


def _compiled(network: Network, folder: Path) -> Prepared:
    import tvm_vision
    from tvm_vision.errors import TvmVisionError

    found, start = Prepared(network), time.process_time()
    for precision in PRECISIONS:
        package = folder / f"{network.file}_{precision}.tar"
        try:
            tvm_vision.compile(
                folder / f"{network.file}.onnx", package, target="vulkan", precision=precision,
                options={"kernel_processes": False},
            )  # fmt: skip
        except TvmVisionError as problem:
            found.failed[precision] = str(problem)
    found.seconds = (time.process_time() - start) / len(PRECISIONS)
    return found
