"""What commands share: how options are spelled, how errors are told, options with their help.

A command that is also installed under its own name, as the originals of YOEO are, is declared with
``@click.command("name", cls=OneLineErrors, context_settings=SETTINGS)`` and named in pyproject.toml
under project.scripts; what the group ``tvm-vision`` does for its commands it then does itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tvm_vision.error_lines import first_line
from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.file_kinds import need_ending
from tvm_vision.interrupts import ctrl_c_as_itself, ended_as_by_ctrl_c, met
from tvm_vision.options import OF_PRECISIONS, CompileOptions, variable_of
from tvm_vision.runtime.choices import DEVICES, FILL_MODES, meant_device
from tvm_vision.standard_streams import open_closed

from .other_names import no_such_option, with_what_it_takes
from .verbosity import add_verbosity, is_verbose, note

# Of what Ctrl-C leaves, by commands that write one file at their end.
NOTHING_WRITTEN = "nothing was written; the same command begins again"
UNMEASURED = "nothing was measured to the end; a smaller --repeat takes less time"
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
# Where the target is kept that a command was given.
_TARGET = f"{__name__}.target"
_FRAME_TIMEOUT = f"{__name__}.frame_timeout"
# Seconds in which every frame is done, on a processor that stands for a GPU as well; nothing else
# would end a command whose GPU hangs, for Ctrl-C waits for the frame.
FRAME_TIMEOUT = 60.0
# Whether a path is there and usable is for the library to say: its messages tell what to do.
PATH = click.Path(path_type=Path)
# Of a confidence and of an overlap.
FRACTION = click.FloatRange(0.0, 1.0)


class OutputFile(click.Path):
    """A file to write whose ending says what it will be; another one is a wrong command line."""

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path)
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        try:
            return need_ending(Path(os.fsdecode(path)), *self.endings)
        except InputError as error:
            self.fail(str(error), param, ctx)


# Of networks, as mod.json has them; said here, for help imports nothing.
KINDS = ("network", "classifier", "yoeo", "yolo", "detr", "ssd", "segmenter", "depth")


def hyphens(name: str) -> str:
    """--input_shape is --input-shape: older tools spell options with underscores."""
    return name.replace("_", "-")


SETTINGS = {"help_option_names": ["-h", "--help"], "token_normalize_func": hyphens}


class Interrupted(click.ClickException):
    """Ctrl-C, or a signal that ends programs, told in a line that says what is kept and how to go
    on; the exit code is 128 and the signal's number, as shells have it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + met()  # type: ignore[misc]  # click has it of classes

    def show(self, file: IO[Any] | None = None) -> None:
        # The terminal may be what went away.
        with contextlib.suppress(OSError):
            click.echo(f"interrupted: {self.format_message()}", file=file, err=file is None)


@contextlib.contextmanager
def interruptible(words: str | Callable[[], str]) -> Iterator[None]:
    """Where Ctrl-C ends the block, ``words`` say what is kept and how to go on."""
    try:
        with ctrl_c_as_itself():
            yield
    except KeyboardInterrupt:
        raise Interrupted(words if isinstance(words, str) else words()) from None


class OneLineErrors(click.Command):
    """Turns a TvmVisionError into its one line, with exit code 1, and Ctrl-C into Interrupted; has
    --quiet and --verbose."""

    def __init__(self, *arguments: Any, **given: Any) -> None:
        super().__init__(*arguments, **given)
        add_verbosity(self)

    def main(self, *arguments: Any, **given: Any) -> Any:
        """As click has it; what ends programs ends it as Ctrl-C does."""
        open_closed()
        with ended_as_by_ctrl_c():
            return super().main(*arguments, **given)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with interruptible("no file is half-written; the same command begins again"):
                return super().invoke(ctx)
        except TvmVisionError as error:
            if is_verbose():
                traceback.print_exc()
            raise click.ClickException(" ".join(str(error).split())) from error
        except OSError as error:
            # A pipe that is closed is click's.
            if error.errno == errno.EPIPE:
                raise
            if is_verbose():
                traceback.print_exc()
            raise click.ClickException(_of_the_system(error)) from error
        except click.NoSuchOption as error:
            # Of a command of the group.
            raise no_such_option(error) from None
        except click.BadOptionUsage as error:
            named = getattr(self, "commands", {}).get(ctx.invoked_subcommand)
            raise with_what_it_takes(error, named or self) from None
        except MemoryError as error:
            raise click.ClickException(
                f"more memory is needed than this machine gives ({error or 'out of memory'}): use "
                "a smaller batch or image"
            ) from None


def _of_the_system(error: OSError) -> str:
    """What the system says of what nobody looked at before: a name that is too long, a full disk
    behind the standard output."""
    reason = error.strerror or first_line(error)
    if not isinstance(error.filename, (str, bytes)):
        return f"reading or writing failed: {reason}"
    return f"'{os.fsdecode(error.filename)}' cannot be used: {reason}"


def parse_size(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """ "416" as (416, 416), "352x640" as (352, 640)."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", value)
    if not found:
        raise click.BadParameter(f"N or HEIGHTxWIDTH is needed, in pixels, found '{value}'")
    return int(found[1]), int(found[2] or found[1])


def class_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--names and --groups of YOEO networks."""
    command = click.option(
        "--groups",
        type=PATH,
        help="YAML with 'group_classes' and 'surrogate_class': classes that count as one when "
        "overlapping boxes are removed, instead of those in the ONNX file.",
    )(command)
    return click.option(
        "--names",
        type=PATH,
        help="YAML with the lists 'detection' and 'segmentation': names of a YOEO network's "
        "classes, instead of those in the ONNX file.",
    )(command)


def kind_option(command: Any) -> Any:
    """--kind: what a network is for."""
    return click.option(
        "--kind", type=click.Choice(KINDS),
        help="What it is for.  [default: what the file's metadata say, else what the outputs' "
        "shapes do, where these are clear, else network]",
    )(command)  # fmt: skip


def host_option(command: Any) -> Any:
    """--host: the processor of a package that is for another machine than this one."""
    return click.option(
        "--host", metavar="PROCESSOR",
        help="Processor beside a GPU that is elsewhere: aarch64, riscv64, x86_64, or 'llvm "
        "-mtriple=aarch64-linux-gnu -mcpu=cortex-a76'.  [default: this one, or the device's]",
    )(command)  # fmt: skip


def chosen_target(target: str, model: Path, host: str | None = None) -> Any:
    """What --target and --host stand for, said on standard error where it was left to this machine;
    after a look at whether ``model`` is any."""
    from tvm_vision.api import choose_target
    from tvm_vision.file_kinds import need_model

    need_model(model)
    chosen, why = choose_target(target, host)
    if why:
        note(f"target: {why}")
    return chosen


def other_processor(target: Any) -> str:
    """The processor that a target's packages run on, where that is not this machine's."""
    import platform

    from tvm_vision.compiler.target import machine_of

    machine = machine_of(target)
    return "" if machine == platform.machine() else machine


def check_runs_here(target: Any) -> None:
    """Refuse what runs a package for another processor."""
    if other := other_processor(target):
        raise click.UsageError(
            f"--check runs the network, and {other} is not this machine: compile without it, and "
            "use 'tvm-vision check' there"
        )


def parse_options(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """NAME=VALUE, each name once, as a dictionary."""
    found: dict[str, Any] = {}
    for written in values:
        try:
            name, value = CompileOptions.parse(written)
        except TvmVisionError as error:
            raise click.BadParameter(str(error)) from None
        if name in found:
            raise click.BadParameter(f"each option once is needed, found {name} twice")
        found[name] = value
    return found


def parse_kind_options(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """NAME=VALUE, each name once, as texts: the library knows what they are for."""
    found: dict[str, str] = {}
    for written in values:
        name, equals, value = written.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"NAME=VALUE is needed, found '{written}'")
        if name in found:
            raise click.BadParameter(f"each name once is needed, found {name} twice")
        found[name] = value
    return found


def show_options(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The table of --help-options, in place of the command."""
    if not value or ctx.resilient_parsing:
        return
    width, indent = shutil.get_terminal_size().columns, " " * 4
    for name, values, default, words in CompileOptions.describe():
        click.echo(f"{name}: {values}  [default: {default}]")
        click.echo(click.wrap_text(words, width, indent, indent))
    click.echo(
        "\nAs --option NAME=VALUE, repeatable; in the environment as "
        f"{variable_of('name').removesuffix('NAME')}NAME=VALUE."
    )
    ctx.exit()


def compile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--option and --help-options: all that decides how a network is compiled."""
    command = click.option(
        "--help-options", is_flag=True, is_eager=True, expose_value=False, callback=show_options,
        help="List what --option takes, and stop.",
    )(command)  # fmt: skip
    return click.option(
        "--option", "options", multiple=True, metavar="NAME=VALUE", callback=parse_options,
        help="How to compile, see --help-options; repeatable.",
    )(command)  # fmt: skip


def named_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that have a spelling of their own: --opt-level, --precision, --layout."""
    for name, words in (
        ("layout", "nchw: channels stay in the model's order; nhwc: channels last, on a GPU."),
        ("precision", "What weights and activations are stored as."),
        ("opt_level", "0: as it is; 1: constants folded; 2: and operators fused; 3: and scales "
                      "folded in."),
    ):  # fmt: skip
        values, default = CompileOptions.values_of(name)
        others = OF_PRECISIONS if name == "precision" else {}
        command = click.option(
            f"--{hyphens(name)}",
            type=HintedChoice([str(value) for value in values], partial(_of_others, others)),
            help=f"{words}  [default: {default}]",
        )(command)  # fmt: skip
    return command


def sample_options(by: str) -> Decorator:
    """--sample-images and --max-error, of commands that store fp16 by the option ``by``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--max-error", type=click.FloatRange(min=0.0, min_open=True),
            help="The largest error on the sample images, as check reports it: the largest "
            "difference of an output, relative to its largest value; of integers the share that "
            "differs.  [default: 0.01]",
        )(command)  # fmt: skip
        return click.option(
            "--sample-images", type=PATH, multiple=True, metavar="FILE|FOLDER",
            help=f"With {by}: keep float32 in those layers whose rounding costs most accuracy on "
            "these images (or .npz files with the network's inputs); repeatable.",
        )(command)  # fmt: skip

    return decorate


def check_sample_options(
    samples: tuple[Path, ...], max_error: float | None, *, fp16: bool, by: str
) -> None:
    """Raise click.UsageError or an InputError for options of ``sample_options`` that cannot be."""
    if samples and not fp16:
        raise click.UsageError(f"--sample-images decides what stays float32 with {by}: add it")
    if max_error is not None and not samples:
        raise click.UsageError("--max-error is measured on --sample-images: name some")
    if samples:
        from tvm_vision.models.samples import check_samples

        check_samples(samples)


def parse_shapes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """NAME:1,3,416,416 (also tvmc's NAME:[1,3,416,416]) as {NAME: (1, 3, 416, 416)}."""
    shapes = {}
    for value in values:
        name, colon, sizes = value.rpartition(":")
        try:
            shape = tuple(int(size) for size in sizes.strip("[]").split(",") if size.strip())
        except ValueError:
            shape = ()
        if not (colon and name and shape):
            raise click.BadParameter(f"NAME:SIZE,SIZE,... is needed, found '{value}'")
        shapes[name] = shape
    return shapes


def input_shapes_option() -> Decorator:
    """--input-shape: NAME:SHAPE, as a dictionary."""
    return click.option(
        "--input-shape", "--input-shapes", "input_shapes", multiple=True, callback=parse_shapes,
        metavar="NAME:SHAPE", help="Fixes a dynamic input, as in image:1,3,416,416; repeatable.",
    )  # fmt: skip


def parse_values(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """NAME=16000, NAME=0.5,2 or NAME=true as {NAME: 16000}, {NAME: [0.5, 2]}, {NAME: True}."""
    found: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.rpartition("=")
        try:
            text = text.strip()
            numbers = json.loads(text if text.startswith("[") else f"[{text}]")
        except json.JSONDecodeError:
            numbers = []
        if not (equals and name and numbers and all(isinstance(n, int | float) for n in numbers)):
            raise click.BadParameter(f"NAME=NUMBER or NAME=NUMBER,... is needed, found '{value}'")
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def input_values_option() -> Decorator:
    """--input-value: NAME=VALUE, as a dictionary."""
    return click.option(
        "--input-value", "--input-values", "input_values", multiple=True, callback=parse_values,
        metavar="NAME=VALUE",
        help="Makes a small input a constant, as in sr=16000 or scale=1,0.5; repeatable.",
    )  # fmt: skip


def package_argument() -> Decorator:
    return click.argument("package", type=PATH)


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # it takes no type before click 8.2
    _Choice = click.Choice


class HintedChoice(_Choice):
    """One of some values, with what to use instead of another that other programs have."""

    def __init__(self, values: Sequence[str], instead: Callable[[str], str]) -> None:
        """instead: for a value what to use here, "" where nothing is known."""
        super().__init__(values)
        self._instead = instead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if use := self._instead(str(value)):
            known = ", ".join(map(str, self.choices))
            self.fail(f"one of {known} is needed, found '{value}': use {use}", param, ctx)
        return super().convert(value, param, ctx)


def _of_others(others: Mapping[str, str], value: str) -> str:
    return others.get(value, "")


def device_option() -> Decorator:
    """--device, as the parameter ``device``; --target and --frame-timeout: ``wanted_target`` and
    ``frame_timeout``."""
    device = click.option(
        "--device",
        type=HintedChoice(DEVICES, meant_device),
        default="auto",
        show_default=True,
        help="auto: the device that the package was made for.",
    )
    return lambda command: device(variant_option()(frame_timeout_option()(command)))


def frame_timeout_option() -> Decorator:
    """--frame-timeout of commands that run networks, see ``frame_timeout``."""

    def keep(ctx: click.Context, param: click.Parameter, value: float | None) -> None:
        ctx.meta[_FRAME_TIMEOUT] = value

    return click.option(
        "--frame-timeout", callback=keep, expose_value=False, metavar="SECONDS",
        type=click.FloatRange(min=0.0, max=3600.0),
        show_default=f"{FRAME_TIMEOUT:g}; 0 where Vulkan is implemented on the CPU",
        help="A GPU counts as lost where a frame takes longer; 0: it may take any time.",
    )  # fmt: skip


def frame_timeout() -> float:
    """What was given for ``frame_timeout_option``, in seconds; 0.0 where the command has none, and
    on a CPU implementation of Vulkan, which no driver loses and which may need minutes."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or _FRAME_TIMEOUT not in ctx.meta:
        return 0.0
    given = ctx.meta[_FRAME_TIMEOUT]
    if given is not None:
        return float(given)
    if ctx.params.get("device") == "cpu":
        return FRAME_TIMEOUT
    from tvm_vision import vulkan

    return 0.0 if any(device.is_cpu for device in vulkan.devices()[:1]) else FRAME_TIMEOUT


def variant_option() -> Decorator:
    """--target of commands that take packages, see ``wanted_target``."""

    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        ctx.meta[_TARGET] = value or ""

    return click.option(
        "--target", callback=keep, expose_value=False, metavar="NAME",
        help="Of a package for several devices the variant to take.  [default: that for this "
        "machine]",
    )  # fmt: skip


def wanted_target() -> str:
    """What was given for ``variant_option``; "" for what fits this machine."""
    ctx = click.get_current_context(silent=True)
    return str(ctx.meta.get(_TARGET, "")) if ctx else ""


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--inputs, --image and --fill-mode: what goes into the network."""
    options = [
        click.option("--inputs", "-i", type=PATH, help=".npz file with an array for each input."),
        click.option("--image", type=PATH, help="Image, prepared as the package says."),
        click.option(
            "--fill-mode",
            type=click.Choice(FILL_MODES),
            default="random",
            show_default=True,
            help="Values where neither --inputs nor --image is given.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def timing_options(*, repeat: int, warmup: int = 3) -> Decorator:
    """--repeat, --number and --warmup: how often something is timed."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--warmup", type=click.IntRange(min=0), default=warmup, show_default=True,
            help="Runs before the first measurement, a quarter of a second of them at least unless "
            "at a rate; 0 for none.",
        )(command)  # fmt: skip
        command = click.option(
            "--number", type=click.IntRange(min=1), default=1, show_default=True,
            help="Runs in each measurement.",
        )(command)  # fmt: skip
        return click.option(
            "--repeat", type=click.IntRange(min=1), default=repeat, show_default=True,
            help="Measurements.",
        )(command)  # fmt: skip

    return decorate


def rate_option() -> Decorator:
    return click.option(
        "--rate", type=click.FloatRange(min=0.0), default=0.0, metavar="FPS",
        help="Frames that begin in a second, as a camera's do: a device that rests between them "
        "clocks lower. 0, the default: one after the other.",
    )  # fmt: skip


def json_option(what: str) -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
