"""Commands and options as others' programs call them, for the line that says what does it here."""

from __future__ import annotations

from collections.abc import Sequence

import click

COMMANDS = {
    **dict.fromkeys(("predict", "infer", "segment", "pose", "obb"), "detect"),
    "track": "detect --track",
    **dict.fromkeys(("val", "test"), "evaluate, of a labelled set, or check, against the model"),
    **dict.fromkeys(("export", "convert", "build"), "compile"),
    **dict.fromkeys(("info", "summary"), "inspect"),
    **dict.fromkeys(("bench", "speed", "time"), "benchmark"),
    **dict.fromkeys(("checks", "check-env", "env", "diagnose"), "doctor"),
    "train": "compile, of what PyTorch has trained and exported to ONNX",
    "help": "--help",
    "version": "--version",
}
OPTIONS = {
    **dict.fromkeys(("--conf", "--conf-thres", "--threshold"), "--confidence"),
    "--iou-thres": "--iou",
    "--max-det": "--max-detections",
    **dict.fromkeys(("--imgsz", "--img", "--img-size"), "compile --input-shape: a package has one"),
    **dict.fromkeys(("--half", "--fp16"), "compile with --precision fp16"),
    "--int8": "quantize, then compile",
    **dict.fromkeys(("--weights", "--model", "--package"), "the package as first argument"),
    "--view-img": "--show",
    **dict.fromkeys(("--project", "--save-dir", "--output"), "--save FOLDER"),
    "--classes": "Python: result['person']",
    **dict.fromkeys(("--gpu", "--cuda"), "--device vulkan, and TVM_VISION_VULKAN_DEVICE for which"),
    "--runs": "--repeat",
    "--data": "the labelled set as second argument",
    **dict.fromkeys(("--batch", "--batch-size"), "compile --input-shape: a package has one"),
    "--format": "compile --target",
}  # fmt: skip


def no_such_command(name: str) -> str:
    """What to say of a command that is not there; "" where nothing better is known."""
    return f"no such command '{name}': use {COMMANDS[name]}" if name in COMMANDS else ""


def no_such_option(error: click.NoSuchOption) -> click.UsageError:
    """The error with what does it here, where that is known."""
    use = OPTIONS.get(error.option_name)
    if use is None:
        return error
    return click.UsageError(f"no such option '{error.option_name}': use {use}", error.ctx)


def as_others_write(words: Sequence[str], command: click.Command) -> str:
    """What to say of arguments of ``command`` such as source=0, as ultralytics writes options; ""
    where there are none."""
    own = {name: param for param in command.params for name in param.opts}
    for before, word in zip(["", *words], words, strict=False):
        name, sign, value = word.partition("=")
        option = f"--{name.replace('_', '-')}"
        if not sign or before.startswith("-") or option not in own | OPTIONS:
            continue
        if option in OPTIONS:
            use = OPTIONS[option]
        elif value.lower() not in ("", "true"):
            use = f"{option} {value}"
        elif getattr(own[option], "is_flag", False):
            use = option
        else:
            use = f"{option} {_takes(own[option])}"
        return f"no such argument '{word}': use {use}"
    return ""


def with_what_it_takes(error: click.BadOptionUsage, command: click.Command) -> click.UsageError:
    """The error of an option of ``command`` without its value, with what that is."""
    param = next((param for param in command.params if error.option_name in param.opts), None)
    if param is None or "requires an argument" not in error.message:
        return error
    words = f"option '{error.option_name}' needs a value: {_takes(param)}"
    return click.UsageError(words, error.ctx)


def _takes(param: click.Parameter) -> str:
    """The value of an option in a word; of click 8.1 and 8.2 alike."""
    if isinstance(param.type, click.Choice):
        return "|".join(map(str, param.type.choices))
    return param.metavar or param.type.name.upper()
