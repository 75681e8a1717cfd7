"""What drivers make of networks' kernels for GPUs that this machine has not, and modelled times.

    python -m benchmarks.static --install
    python -m benchmarks.static demo resnet18 --device renoir,phoenix --precision fp32,fp16
    python -m benchmarks.static model.tar --device renoir --kernels 20
    python -m benchmarks.static resnet18 --tree ../other-checkout --json before.json
    python -m benchmarks.static resnet18 --compare before.json

A network is one of benchmarks/peers, compiled here or by another checkout (--tree), or a package.
The times are of a model that was never calibrated (tvm_vision/offline/machines.py): they rank
kernels and show what holds them up; no device has shown them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from tvm_vision.devices import known_devices
from tvm_vision.error_lines import lines_of
from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.offline import (
    drivers,
    machines,
    model,
    network,
    pipelines,
    report,
    survey,
    unpacked,
)
from tvm_vision.tools.table import table
from tvm_vision.whole_files import ScratchFolder, write_whole

ROOT = Path(__file__).resolve().parents[1]
INT8 = "int8"  # a network that was quantized
PRECISIONS = ("fp32", "fp16", INT8)
Frame = dict[str, Any]
PATH = click.Path(path_type=Path)
# Run in a checkout, with its own Python: what it compiles is its own business.
_COMPILE = """
import json, sys
import tvm_vision
from benchmarks.peers.networks import NETWORKS
job = json.load(sys.stdin)
model = NETWORKS[job["network"]].model()
if job["quantized"]:
    import os, tempfile
    import numpy as np, onnx
    folder = tempfile.TemporaryDirectory()
    source, made = (os.path.join(folder.name, name) for name in ("source.onnx", "made.onnx"))
    onnx.save(model, source)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    samples = [os.path.join(folder.name, f"{number}.npz") for number in range(2)]
    for path in samples:
        np.savez(path, **{model.graph.input[0].name: random.random(shape, dtype="float32")})
    tvm_vision.quantize(source, made, sample_images=samples)
    model = made
tvm_vision.compile(
    model, job["output"], target=job["target"], precision=job["precision"], name=job["network"],
)
"""


@dataclass(frozen=True)
class Source:
    """What is examined on a device: a package as it is, or a network to compile first."""

    name: str
    precision: str | None

    @property
    def is_package(self) -> bool:
        return self.precision is None

    def package(self, folder: Path, device: str, tree: Path) -> Path:
        """Where its package is, compiled for a device where it is a network.

        Raises InputError where the checkout cannot compile it.
        """
        if self.is_package:
            return Path(self.name)
        output = folder / f"{self.name}-{self.precision}-{device}.tar"
        job = {
            "network": self.name,
            # Of what stays in floating point.
            "precision": "fp32" if self.precision == INT8 else self.precision,
            "quantized": self.precision == INT8,
            # Written out, for a checkout that does not know the name, or knows it otherwise.
            "target": known_devices()[device].target_config(),
            "output": str(output.resolve()),
        }
        own = tree / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        done = subprocess.run(
            [python, "-c", _COMPILE],
            input=json.dumps(job),
            text=True,
            capture_output=True,
            cwd=tree,
        )
        if done.returncode:
            raise InputError(
                f"{self.name} could not be compiled for {device} in '{tree}': "
                f"{(lines_of(done.stderr) or ['no message'])[-1]}"
            )
        return output


def _listed(_: Any, option: click.Parameter, value: str) -> tuple[str, ...]:
    allowed = PRECISIONS if option.name == "precisions" else drivers.DEVICES
    chosen = tuple(value.split(","))
    if unknown := [each for each in chosen if each not in allowed]:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(allowed)}")
    return chosen


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("networks", nargs=-1)
@click.option("--install", is_flag=True, help="Fetch and unpack the drivers, then go on.")
@click.option(
    "--device", "devices", default="renoir", show_default=True, callback=_listed,
    help=f"Of {', '.join(drivers.DEVICES)}; several with commas.",
)  # fmt: skip
@click.option(
    "--precision", "precisions", default="fp32", show_default=True, callback=_listed,
    help="Of networks that are compiled here: fp32, fp16, int8, several with commas. int8 is "
    "quantized by two samples of noise.",
)  # fmt: skip
@click.option("--kernels", type=int, default=0, help="List so many kernels of each network, too.")
@click.option("--tree", type=PATH, default=ROOT, help="Compile with this checkout.")
@click.option("--keep", type=PATH, help="Keep what was compiled in this folder.")
@click.option("--text", type=PATH, help="Write what the drivers print to this folder.")
@click.option("--json", "output", type=PATH, help="Write all numbers to this file.")
@click.option("--document", type=PATH, help="Write the table between the marks of this document.")
@click.option("--compare", type=PATH, help="Show what changed since this file was written.")
def main(
    networks: tuple[str, ...],
    install: bool,
    devices: tuple[str, ...],
    precisions: tuple[str, ...],
    kernels: int,
    tree: Path,
    keep: Path | None,
    text: Path | None,
    output: Path | None,
    document: Path | None,
    compare: Path | None,
) -> None:
    """What drivers make of NETWORKS, and how long a frame takes by the model.

    A network is a name of benchmarks/peers/networks.py, or a package of any compiled for Vulkan.
    """
    if not networks and not install:
        raise click.UsageError("name a network or a package, or --install")
    try:
        if install:
            unpacked.install(click.echo)
        sources = list(_sources(networks, precisions))
        with ExitStack() as stack:
            folder = keep or stack.enter_context(ScratchFolder())
            folder.mkdir(parents=True, exist_ok=True)
            frames = []
            for source in sources:
                for device in devices:
                    frames.append(_examine(source, device, tree, folder, text))
        _show(frames, kernels, compare)
        if output is not None:
            write_whole(output, json.dumps(frames, indent=1).encode())
        if document is not None:
            _document(document, frames, networks, devices, precisions)
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.static: {error}") from None


def _sources(networks: Sequence[str], precisions: Sequence[str]) -> Iterator[Source]:
    from .peers.networks import NETWORKS

    for name in networks:
        if name in NETWORKS:
            yield from (Source(name, precision) for precision in precisions)
        elif Path(name).exists():
            yield Source(name, None)
        else:
            raise InputError(
                f"a package, or a network of {', '.join(NETWORKS)}, is needed, found '{name}'"
            )


def _examine(source: Source, device: str, tree: Path, folder: Path, text: Path | None) -> Frame:
    found = network.read_network(source.package(folder, device, tree))
    if source.precision is not None:
        found = replace(found, precision=source.precision)
    compiled = pipelines.compile_kernels(list(found.kernels.values()), drivers.find(device))
    if text is not None:
        _write_texts(compiled, text / f"{found.name}-{found.precision}-{device}")
    if device not in machines.MACHINES:
        return survey.survey(found, compiled, device)
    machine = machines.of_target(device, found.target)
    frame = report.to_json(model.examine(found, compiled, machine))
    click.echo(
        f"{found.name} {found.precision} {device}: {1e3 * frame['seconds']:.2f} ms", err=True
    )
    return frame


def _write_texts(compiled: pipelines.Compiled, folder: Path) -> None:
    for pipeline in compiled.pipelines.values():
        for name, text in pipeline.texts.items():
            end = "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
            write_whole(folder / f"{pipeline.kernel}.{end}.txt", text.encode())


def _show(frames: Sequence[Frame], kernels: int, compare: Path | None) -> None:
    if not frames:
        return
    modelled, surveyed = _apart(frames)
    for frame in frames if kernels else ():
        click.echo(f"\n{frame['network']} {frame['precision']} on {frame['device']}")
        kind = report if "seconds" in frame else survey
        for line in table(kind.KERNEL_HEADER, kind.kernel_rows(frame, kernels)):
            click.echo(line)
    if modelled:
        click.echo(f"\n{_drivers(modelled)}; {report.LEGEND}")
        for line in table(report.FRAME_HEADER, report.frame_rows(modelled), left=3):
            click.echo(line)
    for frame in modelled:
        lost = [name for name, kernel in frame["kernels"].items() if kernel["unknown"]]
        if lost:
            click.echo(
                f"{frame['network']} {frame['precision']} on {frame['device']} takes longer: the "
                f"model does not follow a loop of {', '.join(lost)}"
            )
    if surveyed:
        click.echo(f"\n{_drivers(surveyed)}; {survey.LEGEND}")
        for line in table(survey.HEADER, survey.rows(surveyed), left=3):
            click.echo(line)
    if compare is not None:
        click.echo(f"\nsince {compare}")
        before, _ = _apart(json.loads(compare.read_text()))
        for line in report.compare(before, modelled, kernels or 8):
            click.echo(line)


def _apart(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Those that a model timed, and those of which only the driver's statistics are known."""
    modelled = [frame for frame in frames if "seconds" in frame]
    return modelled, [frame for frame in frames if "seconds" not in frame]


def _drivers(frames: Sequence[Frame]) -> str:
    return ", ".join(sorted({frame["driver"] for frame in frames}))


def _document(
    path: Path,
    frames: Sequence[Frame],
    networks: Sequence[str],
    devices: Sequence[str],
    precisions: Sequence[str],
) -> None:
    """Put the table, the drivers' versions and the command between ``<!-- static -->`` marks."""
    from scripts.markdown_tables import document
    from scripts.markdown_tables import table as markdown_table

    def made() -> str:
        command = (
            f"python -m benchmarks.static {' '.join(networks)} --device {','.join(devices)} "
            f"--precision {','.join(precisions)} --document {path}"
        )
        text = f"`{command}`:\n\n"
        modelled, surveyed = _apart(frames)
        for some, header, lines in (
            (modelled, report.FRAME_HEADER, report.frame_rows(modelled)),
            (surveyed, survey.HEADER, survey.rows(surveyed)),
        ):
            head = " | ".join(header).replace("<", "&lt;")
            if some:
                table_of = markdown_table(head, [tuple(line) for line in lines])
                text += f"Driver: {_drivers(some)}.\n\n{table_of}\n"
        return text

    text = document(path.read_text("utf-8"), {"static": made}, path.name)
    write_whole(path, text.encode())


if __name__ == "__main__":
    main(prog_name="benchmarks.static")
