"""Fits the costs of the tile models to what tuning measured, and says how well they rank tiles.

    python -m benchmarks.fit_costs --recorded
    python -m benchmarks.fit_costs RECORDS.jsonl MODEL.onnx ... [--target JSON] [--precision fp16]
        [--device "NVIDIA H200"] [--clock 1.98]

Records name kernels by structure; the models, compiled for the target that was tuned for, give the
kernels' shapes. Printed are for each template the costs as they stand in
``schedules/cost/device_model.py``, fitted ones beside them, and both's error and regret: the time
of the tile ranked first among those measured for a kernel, over that of the best. ``--recorded``
prints the constants whose data lies in benchmarks/results: the cost of a launch. The timings that
the tile models were fitted to were not kept, only what benchmarks/schedules says of them, so
their costs cannot be found again from the repository alone: tune, and fit to those records, or to
those of benchmarks/products.py.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from tvm.s_tir import Schedule

from tvm_vision.compiler import parse_target, prepare
from tvm_vision.errors import TvmVisionError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import kernel_key
from tvm_vision.schedules.cost import coopmat_gemm as coopmat_gemm_cost
from tvm_vision.schedules.cost import direct_conv as direct_conv_cost
from tvm_vision.schedules.cost import gemm as gemm_cost
from tvm_vision.schedules.cost.device_model import DISCRETE, DeviceModel
from tvm_vision.schedules.templates import FAILURES, TEMPLATES, ScheduleConfig
from tvm_vision.tuning.records import Record, read_records

RESULTS = Path(__file__).parent / "results" / "nvidia-h200.json"
CYCLES: dict[str, Callable[[Any, Any, DeviceModel], float]] = {
    "contraction": gemm_cost.cycles,
    "coopmat_gemm": coopmat_gemm_cost.cycles,
    "direct_conv": direct_conv_cost.cycles,
}
# fields of a DeviceModel
COSTS = {"contraction": "gemm", "coopmat_gemm": "coopmat", "direct_conv": "direct_conv"}
DRAW = 0.2  # of a logarithm's error: how strongly costs are drawn to the present ones
STEP = 1e-4  # of a cost's logarithm, for its derivative
ROUNDS = 80
HALVINGS = 8  # of a step that makes it worse; then it ends
FARTHEST = 0.5  # that a cost's logarithm moves in a round


@dataclass(frozen=True)
class Sample:
    """One measured tile: the shape that its template has of the kernel, the tile, seconds."""

    shape: Any
    tile: Any
    seconds: float


def measured_launch() -> float:
    """Seconds from one kernel that waits for another to the next, as recorded of an H200."""
    return float(json.loads(RESULTS.read_text())["ceilings"]["launch_us"]) * 1e-6


def functions_of(paths: Iterable[str], target: str, precision: str) -> dict[str, Any]:
    """The kernels of models, without schedules, by their keys."""
    found = {}
    for path in paths:
        module, _ = import_onnx(path)
        graph = prepare(module, target=parse_target(target), precision=precision)
        found.update({kernel_key(function): function for function in graph.functions.values()})
    return found


def samples_of(
    records: Iterable[Record], functions: dict[str, Any], device: str = ""
) -> dict[str, list[Sample]]:
    """By template what was measured of known kernels and is right.

    Args:
        device: the name of the device whose records count; "" for all.
    """
    found: dict[str, list[Sample]] = defaultdict(list)
    for record in records:
        name = record.decision.get("template")
        function = functions.get(record.kernel)
        other = device and record.place.device != device
        if name not in CYCLES or function is None or other or not record.seconds or record.error:
            continue
        try:
            shape = TEMPLATES[name].shape_of(Schedule(function))
        except FAILURES:
            continue  # of another kind than when it was tuned
        tile = ScheduleConfig.from_dict(dict(record.decision)).parameters
        found[name].append(Sample(shape, tile, record.best))
    return dict(found)


def errors(
    template: str, samples: Sequence[Sample], device: DeviceModel, clock: float
) -> np.ndarray:
    """Logarithms of estimated over measured seconds, one a sample. clock: cycles a second."""
    cycles = CYCLES[template]
    found = [np.log(cycles(s.tile, s.shape, device) / (clock * s.seconds)) for s in samples]
    return np.array(found)


def regret(template: str, samples: Sequence[Sample], device: DeviceModel) -> float:
    """Geometric mean over shapes: time of the tile estimated to be fastest over the best's."""
    shapes: dict[Any, list[Sample]] = defaultdict(list)
    for sample in samples:
        shapes[sample.shape].append(sample)
    ratios = []
    for shape, of_shape in shapes.items():
        first = min(of_shape, key=lambda s: CYCLES[template](s.tile, shape, device))
        ratios.append(first.seconds / min(s.seconds for s in of_shape))
    return statistics.geometric_mean(ratios)


def names_of(template: str, device: DeviceModel) -> list[str]:
    """The costs of a template that can be fitted: its numbers, but for what is 0."""
    costs = vars(getattr(device, COSTS[template]))
    return [name for name, value in costs.items() if isinstance(value, float) and value]


def with_costs(template: str, device: DeviceModel, values: dict[str, float]) -> DeviceModel:
    """The device with other costs of a template."""
    name = COSTS[template]
    changed: dict[str, Any] = {name: replace(getattr(device, name), **values)}
    return replace(device, **changed)


def fit(
    template: str,
    samples: Sequence[Sample],
    device: DeviceModel,
    clock: float,
    *,
    draw: float = DRAW,
) -> DeviceModel:
    """The device with the costs that explain the samples best.

    Least squares of the logarithms' errors, of which large ones count less (soft L1), and of the
    way from the costs of ``device``: what samples do not tell stays.

    Args:
        clock: cycles a second.
        draw: the weight of that way.
    """
    names = names_of(template, device)
    start = np.log([getattr(getattr(device, COSTS[template]), name) for name in names])

    def at(logs: np.ndarray) -> DeviceModel:
        values = dict(zip(names, map(float, np.exp(logs)), strict=True))
        return with_costs(template, device, values)

    def off(logs: np.ndarray) -> np.ndarray:
        return errors(template, samples, at(logs), clock)

    def loss(logs: np.ndarray) -> float:
        far = draw * (logs - start)
        return float(np.sum(2 * (np.sqrt(1 + off(logs) ** 2) - 1)) + far @ far)

    now, lost = start.copy(), loss(start)
    for _ in range(ROUNDS):
        here = off(now)
        slope = [(off(now + STEP * unit) - here) / STEP for unit in np.eye(len(names))]
        weights = (1 + here**2) ** -0.25  # its square is soft L1's slope over the error
        matrix = np.vstack([weights[:, None] * np.array(slope).T, draw * np.eye(len(names))])
        target = np.concatenate([-weights * here, draw * (start - now)])
        step = np.linalg.lstsq(matrix, target, rcond=None)[0]
        step *= FARTHEST / max(np.abs(step).max(), FARTHEST)  # its direction stays
        tried = [now + step / 2**halving for halving in range(HALVINGS)]
        better = next((logs for logs in tried if loss(logs) < lost), None)
        if better is None:
            break
        now, lost = better, loss(better)
    return at(now)


def report(template: str, samples: Sequence[Sample], device: DeviceModel, clock: float) -> str:
    """The costs of a template before and after a fit, with errors and regrets."""
    fitted = fit(template, samples, device, clock)
    lines = [f"{template}: {len(samples)} tiles of {len({s.shape for s in samples})} kernels"]
    before, after = getattr(device, COSTS[template]), getattr(fitted, COSTS[template])
    for name in names_of(template, device):
        lines.append(f"  {name:9} {getattr(before, name):10.4g} {getattr(after, name):10.4g}")
    for title, model in (("now", device), ("fitted", fitted)):
        error = float(np.sqrt(np.mean(errors(template, samples, model, clock) ** 2)))
        worse = regret(template, samples, model)
        lines.append(f"  {title:9} error {error:.3f}, regret {worse:.3f}")
    return "\n".join(lines)


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--recorded", is_flag=True, help="Print the constants whose data was kept.")
@click.option("--target", default="vulkan", show_default=True, help="That was tuned for.")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), default="fp32")
@click.option("--device", default="", help="Count records of this device alone.")
@click.option("--clock", type=float, default=1.98, show_default=True, help="GHz, while tuned.")
def main(
    paths: tuple[str, ...], recorded: bool, target: str, precision: str, device: str, clock: float
) -> None:
    """Fit costs to RECORDS of kernels of MODELS."""
    if recorded:
        print(f"DISCRETE: rates.launch {measured_launch():.2e} s")
        return
    if len(paths) < 2:
        raise click.UsageError("a file of records and a model at least are needed")
    try:
        records = read_records(paths[0])
        found = samples_of(records, functions_of(paths[1:], target, precision), device)
    except TvmVisionError as error:
        raise click.ClickException(str(error)) from None
    if not found:
        raise click.ClickException(
            f"records of kernels of these models are needed, and none of the {len(records)} in "
            f"'{paths[0]}' is one: name the models, target and precision that were tuned"
        )
    for template, samples in sorted(found.items()):
        print(report(template, samples, DISCRETE, clock * 1e9))


if __name__ == "__main__":
    main()
