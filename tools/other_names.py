"""Commands and options as others' programs call them, for the line that says what does it here."""

from __future__ import annotations

import click

COMMANDS = {
    **dict.fromkeys(("predict", "infer", "segment", "pose", "obb"), "detect"),
    "track": "detect, and its results in Python through to_supervision to a tracker",
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
