"""``tvm-vision inspect``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.options import CompileOptions

from .options import json_option, package_argument, variant_option
from .table import data_size, table

MAX_LAYERS = 12

if TYPE_CHECKING:
    from tvm_vision.package import Fleet, Package, PackageInfo, YoeoInfo


@click.command()
@package_argument()
@variant_option()
@click.option("--kernels", is_flag=True, help="List every kernel with its tensors and nodes.")
@json_option("mod.json")
def inspect(package: Path, kernels: bool, as_json: bool) -> None:
    """Check a package and print what is in it.

    Nothing of PACKAGE is run.

    \b
    Example:
      tvm-vision inspect model.tar
      tvm-vision inspect model.tar --kernels
      tvm-vision inspect model.tar --json | jq .model.labels
    """
    from tvm_vision.package import read_fleet

    from .session import read_any

    fleet = read_fleet(package)
    with read_any(package) as opened:
        if as_json:
            click.echo(json.dumps(opened.info.to_json(), indent=2, ensure_ascii=False))
            return
        for line in (*variant_lines(fleet, opened), *summary(opened)):
            click.echo(line)
        if kernels:
            for line in kernel_lines(opened.info):
                click.echo(line)


def variant_lines(fleet: Fleet | None, shown: Package) -> Iterator[str]:
    """The variants of a package for several devices; "*" stands at the one that is shown."""
    for variant in fleet.variants if fleet is not None else ():
        mark = "*" if variant.target == shown.info.target else " "
        own = sum(piece.size for piece in (*variant.info, *variant.params, variant.library))
        yield f"variant    {mark} {variant.describe()}, {data_size(own)} of its own and shared"


def summary(package: Package) -> Iterator[str]:
    """What a package is, in a dozen lines."""
    from tvm_vision.package.signature import signer

    info = package.info
    model = info.model
    labels = f", {len(model.labels)} labels" if model.labels else ""
    yield f"model        {model.name} ({model.kind}{labels})"
    for tensor in info.inputs:
        yield f"input        {tensor}{_remark(tensor.layout, tensor.units)}"
    for name, value in model.input_values.items():
        yield f"constant     {name} = {json.dumps(value)}, an input of the model"
    for tensor in info.outputs:
        yield f"output       {tensor}{_remark(tensor.layout, tensor.units)}"
    if model.preprocessing is not None:
        p = model.preprocessing
        fit = "stretched" if p.stretch else "letterbox" if p.letterbox else f"crop {p.crop:g}"
        yield f"image        {p.size[0]}x{p.size[1]} {p.color_order}, {fit}, {p.interpolation}"
        yield f"  mean, std  {', '.join(f'{m:g}' for m in p.mean)}; {_numbers(p.std)}"
    if model.yoeo is not None:
        yield from yoeo_lines(model.labels, model.yoeo)
    for name in ("detection", "segmentation", "depth"):
        if (part := getattr(model, name)) is not None:
            yield f"{name:<12} {unusual(part)}"
    counts = Counter(kernel.function for kernel in info.graph.kernels)
    yield f"kernels      {len(info.graph.kernels)} calls of {len(counts)} functions"
    memory = info.memory
    yield (
        f"memory       {data_size(memory.peak)} peak: {data_size(memory.weights)} weights, "
        f"{data_size(memory.activations)} activations"
    )
    yield f"target       {_target(info)}"
    if info.device is not None:
        yield f"device       {info.device.name} ({info.device.driver or 'driver unknown'})"
        if note := note_here(info):
            yield f"  note       {note}"
    whole = bytes_line(info)
    yield f"precision    {info.precision}{whole}, optimisation level {info.options['opt_level']}"
    if changed := changed_options(info):
        yield f"options      {changed}"
    yield from precision_lines(info)
    yield f"made by      {', '.join(f'{name} {v}' for name, v in sorted(info.versions.items()))}"
    yield f"tuned by     {info.records or 'nothing: default schedules'}"
    if package.signature is not None:
        yield f"signed by    {signer(package.signature)[:12]}, as it says: tvm-vision verify checks"
    for name, size in package.sizes().items():
        yield f"{name:<12} {data_size(size)}, SHA-256 {info.members[name][:16]}..."


def note_here(info: PackageInfo) -> str:
    """What it means to run a package on this machine's device, where it was made for another."""
    from tvm_vision import vulkan
    from tvm_vision.devices.difference import difference

    found = vulkan.devices()
    return difference(info.target, found[0]) if found else ""


def unusual(part: Any) -> str:
    """How outputs are read: the fields of a part of mod.json that are not as usual."""
    said = {
        field.name: getattr(part, field.name)
        for field in fields(part)
        if getattr(part, field.name) != field.default
    }
    return ", ".join(f"{name} {_shown(value)}" for name, value in said.items())


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return _spelled(value) if isinstance(value, (bool, int, str)) else f"{value:g}"


def yoeo_lines(labels: tuple[str, ...], yoeo: YoeoInfo) -> Iterator[str]:
    """What the outputs of a YOEO network say."""
    if labels:
        how = f"decoded at run time from {len(yoeo.heads)} heads" if yoeo.heads else "decoded"
        yield f"boxes        {', '.join(labels)} ({how})"
    for group in yoeo.groups:
        yield f"  group      {group.surrogate}: {', '.join(group.classes)}"
    if yoeo.segmentation:
        yield f"mask         {', '.join(yoeo.segmentation_labels)}"


def bytes_note(model: Path, info: PackageInfo) -> str:
    """What to say where a file is quantized, and its package computes in float32; else ""."""
    from tvm_vision.frontend.model import is_quantized_file

    dequantized = not bytes_line(info) and is_quantized_file(model, info.model)
    return dequantized_note(model) if dequantized else ""


def dequantized_note(model: Path) -> str:
    """What to say of a quantized file whose package computes in float32."""
    return (
        f"note: {model.name} is quantized, and is computed in float32 here, every rounding "
        "included: the network it was made of is faster. Bytes pay on GPUs that multiply four by "
        "one instruction; compiling with --option int8=on computes in them anyway"
    )


def bytes_line(info: PackageInfo) -> str:
    """How many kernels compute with int8 weights, for the line of the precision; "" for none."""
    tensors = info.graph.tensors
    weights = {i for i in info.graph.params.values() if tensors[i].dtype == "int8"}
    kernels = info.graph.kernels
    count = sum(not weights.isdisjoint(kernel.reads) for kernel in kernels)
    return f" and int8 (weights of {count} of {len(kernels)} kernels)" if count else ""


def changed_options(info: PackageInfo) -> str:
    """How a network was compiled, but for what is as usual or has a line of its own."""
    usual = CompileOptions().to_json()
    own = ("opt_level", "precision")
    changed = {k: v for k, v in info.options.items() if v != usual.get(k) and k not in own}
    return ", ".join(f"{name}={_spelled(value)}" for name, value in changed.items())


def _spelled(value: bool | int | str) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def precision_lines(info: PackageInfo) -> Iterator[str]:
    """What was measured on sample images, and the layers that keep float32; those first that would
    cost most as fp16."""
    measured = info.measured_precision
    if measured is None:
        return
    yield f"  measured   {measured}"
    kept = sorted(measured.kept, key=lambda layer: -(layer.largest or layer.error or 0.0))
    for layer in kept[:MAX_LAYERS]:
        parts = " and ".join(part for part in ("weights", "result") if getattr(layer, part))
        why = [] if layer.largest is None else [f"values up to {layer.largest:.3g}"]
        why += [] if layer.error is None else [f"error {layer.error:.1e} as fp16"]
        yield f"  float32    {' '.join(layer.nodes)}: {parts} ({', '.join(why) or 'no numbers'})"
    if len(kept) > MAX_LAYERS:
        yield f"  float32    {len(kept) - MAX_LAYERS} more: see --json"


def _remark(*words: str) -> str:
    found = [word for word in words if word]
    return f"  {', '.join(found)}" if found else ""


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _target(info: PackageInfo) -> str:
    host = info.target.get("host")
    names = [str(info.target["kind"])]
    for target in (info.target, host if isinstance(host, dict) else {}):
        names += [str(target[key]) for key in ("mtriple", "mcpu") if target.get(key)]
    return ", ".join(names)


def kernel_lines(info: PackageInfo) -> list[str]:
    """A table of the kernels in order: what each reads and writes, and the nodes it computes."""
    tensors = info.graph.tensors
    rows = []
    for index, kernel in enumerate(info.graph.kernels):
        reads, writes = (
            " ".join(f"{tensors[i].dtype}{list(tensors[i].shape)}" for i in ids).replace(", ", ",")
            for ids in (kernel.reads, kernel.writes)
        )
        rows.append((index, kernel.function, reads, writes, " ".join(kernel.nodes)))
    return ["", *table(("#", "function", "reads", "writes", "nodes"), rows, left=5)]
