"""Networks as files that every engine can read: the ONNX model in float32 and fp16, the image that
is timed, and what ONNX Runtime computes of it on the processor.

PyTorch and TVM bring libraries of the same names, so a process that exports never loads TVM.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from benchmarks.peers.engine import Files
from benchmarks.peers.measure import write_example

from .networks import Network


def files_of(network: Network, folder: Path) -> Files:
    """A folder for each network: processes of several at a time write their logs there."""
    return Files(folder / network.file, network.file)


def cores() -> int:
    """How many processes at a time; one is left to whoever waits for them."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def export(networks: Sequence[Network], folder: Path) -> Iterator[tuple[Network, str]]:
    """Writes the files of each network, on all cores; each as soon as it is there, with why it is
    not, or nothing."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores(), spawn, initializer=_one_thread) as pool:
        jobs = {pool.submit(_exported, network, folder): network for network in networks}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def _one_thread() -> None:
    """Of each process, before it imports PyTorch: a step by itself would take all cores, and all of
    them together took five times as long."""
    os.environ["OMP_NUM_THREADS"] = "1"


def _exported(network: Network, folder: Path) -> str:
    files = files_of(network, folder)
    files.folder.mkdir(parents=True, exist_ok=True)
    if files.example.exists():
        return ""
    try:
        network.export(files.model())
    except Exception as problem:  # the exporter raises every kind there is
        return f"cannot be exported: {type(problem).__name__}"
    _write_half(files)
    image = np.random.default_rng(1).random(network.shape, "float32")
    write_example(files, image, threads=1)
    return ""


def _write_half(files: Files) -> None:
    """Engines that take a model as it is written say that there is no file, where this fails."""
    import onnx

    from benchmarks.peers.half import to_fp16

    try:
        onnx.save(to_fp16(files.read()), files.model("fp16"))
    except Exception as problem:  # a model that no longer infers: every kind there is
        (files.folder / "no-fp16.txt").write_text(str(problem))
