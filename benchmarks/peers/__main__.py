"""Our engine beside others on this machine's GPU, in one run.

Prints tables, writes the results as JSON and a plot. Engines that are not installed are named.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from tvm_vision import vulkan
from tvm_vision.errors import DeviceError, TvmVisionError
from tvm_vision.whole_files import write_whole

from . import measure, report
from .engine import ENGINES, Files, Unusable, make_engine
from .first_result import bare_process_seconds, first_result_seconds
from .measure import Measurement, Row, Settings
from .networks import NETWORKS
from .plot import draw
from .processes import ROOT, Process
from .work import model_work

RESULTS = ROOT / "benchmarks" / "results"
FOLDER = ROOT / "build" / "bench"
OURS = "tvm_vision"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--network", "networks", multiple=True, type=click.Choice(list(NETWORKS)))
@click.option("--engine", "engines", multiple=True, type=click.Choice(list(ENGINES)))
@click.option("--precision", "precisions", multiple=True, type=click.Choice(["fp32", "fp16"]))
@click.option("--runs", default=Settings.runs, help="Frames of an engine on a network.")
@click.option("--rounds", default=Settings.rounds, help="Turns that the frames are spread over.")
@click.option("--warm-seconds", default=Settings.warm_seconds, help="Load before each turn.")
@click.option("--round-seconds", default=Settings.round_seconds, help="Most time of a turn.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Models, packages.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="JSON file.  [default: by the device's name]"
)
@click.option(
    "--resume", is_flag=True,
    help="Go on with a run that was cut: networks that the JSON file has are not measured again.",
)  # fmt: skip
@click.option("--commit", help="What was measured.  [default: what git says]")
@click.option("--allow-cpu", is_flag=True, help="A rehearsal: times say nothing about a GPU.")
@click.option("--prepare-only", is_flag=True, help="Convert and compile, measure nothing.")
@click.option("--device-only", is_flag=True, help="Say what would be measured, or why nothing can.")
def main(
    networks: tuple[str, ...],
    engines: tuple[str, ...],
    precisions: tuple[str, ...],
    runs: int,
    rounds: int,
    warm_seconds: float,
    round_seconds: float,
    folder: Path,
    output: Path | None,
    resume: bool,
    commit: str | None,
    allow_cpu: bool,
    prepare_only: bool,
    device_only: bool,
) -> None:
    """Compare engines on all networks, or on those named."""
    settings = Settings(runs, rounds, warm_seconds, round_seconds)
    try:
        device = check_device(allow_cpu)
    except TvmVisionError as error:
        raise click.ClickException(str(error)) from error
    click.echo(device)
    if device_only:
        return
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = output or default_output(device, allow_cpu)
    commit = commit or git_commit()
    before = earlier(path, device, commit) if resume else {}
    known = {row["network"] for row in before.get("rows", ())}
    wanted = [name for name in networks or NETWORKS if name not in known]
    for network in wanted:
        measure.write_models(folder, network)
    found = measure.versions(engines or ENGINES)
    for name, engine in found.items():
        missing = engine.get("not_installed")
        click.echo(f"{name}: {f'not installed: {missing}' if missing else engine['version']}")
    rows = plan_rows(wanted, found, precisions)
    jobs = [(r.engine, r.network, r.precision) for r in rows if not r.problem]
    failed = measure.prepare(folder, jobs, settings, click.echo)
    for row in rows:
        row.problem = row.problem or failed.get((row.engine, row.network, row.precision), "")
    if prepare_only:
        for row in rows:
            if row.problem:
                click.echo(f"{row.engine} {row.network} {row.precision}: {row.problem}")
        return
    results = {
        "device": device,
        "host": host(),
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "commit": commit,
        "rehearsal": allow_cpu,
        "settings": vars(settings),
        "engines": found,
        "ceilings": before.get("ceilings")
        or ceilings(folder, settings, 0.002 if allow_cpu else 1.0),
        "work": {**before.get("work", {}), **work(folder, wanted)},
        "bare_process_s": before.get("bare_process_s") or round(bare_process_seconds(), 3),
        "first_result_s": before.get("first_result_s", {}),
        "rows": before.get("rows", []),
    }
    with Measurement(folder, settings, click.echo) as measurement:
        for network in wanted:
            own = [row for row in rows if row.network == network]
            measurement.network(own)
            results["rows"] += [row.to_json() for row in own if row.done]
            results["first_result_s"].update(first_results(folder, own))
            # What was measured stays, whatever becomes of the rest.
            write(results, path)
    show(results, path)


def earlier(path: Path, device: str, commit: str) -> dict[str, Any]:
    """What an earlier run wrote. Raises ClickException where it is of other code or devices."""
    if not path.exists():
        return {}
    results: dict[str, Any] = json.loads(path.read_text())
    if (results["device"], results["commit"]) != (device, commit):
        raise click.ClickException(
            f"a run of {commit} on {device} can be resumed, and '{path}' is of "
            f"{results['commit']} on {results['device']}: measure anew, without --resume"
        )
    return results


def check_device(allow_cpu: bool) -> str:
    """One line on the GPU. Raises DeviceError where there is none."""
    found = vulkan.devices()
    if not found:
        raise DeviceError(f"a benchmark needs a GPU, but {vulkan.status()}")
    if found[0].is_cpu and not allow_cpu:
        raise DeviceError(
            f"a benchmark needs a GPU, found {found[0].describe()}; its times would say nothing "
            "about a GPU. --allow-cpu rehearses the script on it"
        )
    return found[0].describe()


def plan_rows(
    networks: list[str], engines: dict[str, dict[str, str]], precisions: tuple[str, ...]
) -> list[Row]:
    """A row for each engine, network and precision; engines that are not there say so in each."""
    return [
        Row(
            name,
            network,
            precision,
            f"not installed: {missing}" if missing else "",
            NETWORKS[network].of_photos,
        )
        for network in networks
        for name, engine in engines.items()
        for missing in [engine.get("not_installed", "")]
        for precision in make_engine(name).precisions
        if not precisions or precision in precisions
    ]


def host() -> str:
    """The processor and what runs on it."""
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    count = text.count("processor\t")
    processor = name[1] if name else platform.machine()
    return f"{processor}, {count} cores, Python {platform.python_version()}"


def git_commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def ceilings(folder: Path, settings: Settings, scale: float) -> dict[str, float]:
    process = Process(OURS, folder, {}, settings.answer_seconds)
    try:
        return process.ask("ceilings", scale=scale)
    finally:
        process.close()


def work(folder: Path, networks: list[str]) -> dict[str, dict[str, int]]:
    """Network and precision -> operations and bytes."""
    return {
        f"{network} {precision}": vars(model_work(Files(folder, network).read(), precision))
        for network in networks
        for precision in ("fp32", "fp16")
    }


def first_results(folder: Path, rows: list[Row]) -> dict[str, float]:
    """Network and precision -> seconds from the start of a process to its first result."""
    found = {}
    for row in rows:
        if row.engine != OURS or row.problem:
            continue
        files = Files(folder, row.network)
        package = files.of(OURS, f"{row.precision}.tar")
        try:
            seconds = first_result_seconds(package, files.example)
        except Unusable as error:
            click.echo(f"no first result of {row.network} {row.precision}: {error}")
            continue
        found[f"{row.network} {row.precision}"] = round(seconds, 3)
    return found


def default_output(device: str, rehearsal: bool) -> Path:
    """A rehearsal never lands among the results."""
    name = re.sub(r"[^a-z0-9]+", "-", device.partition(":")[2].partition("(")[0].lower()).strip("-")
    return (FOLDER if rehearsal else RESULTS) / f"{name}.json"


def write(results: dict[str, Any], path: Path) -> None:
    write_whole(path, (json.dumps(results, indent=1) + "\n").encode())


def show(results: dict[str, Any], path: Path) -> None:
    """The tables, and the plot beside the results."""
    click.echo(report.tables(results))
    click.echo(f"wrote {path}")
    try:
        draw(results, path.with_suffix(".png"))
    except ImportError:
        click.echo("no plot: pip install matplotlib")
    else:
        click.echo(f"wrote {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
