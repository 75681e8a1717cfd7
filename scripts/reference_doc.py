"""Write what docs/ has from the sources: python scripts/reference_doc.py.

A test compares the files with what this makes. Only what stands between the marks is replaced:
``<!-- NAME -->`` and ``<!-- end -->``. docs/reference/commands.md is commands_doc.py's.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tvm_vision
from tvm_vision import errors
from tvm_vision.compiler.pipeline import PHASES
from tvm_vision.options import CompileOptions, variable_of
from tvm_vision.package import detection, fleet, graph, info, pixels, precision, yoeo
from tvm_vision.vulkan import describe_options
from tvm_vision_ros import class_settings
from tvm_vision_ros.settings import markdown

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.markdown_tables import document, table  # noqa: E402

DOCS = ROOT / "docs"
LAUNCH = ROOT / "launch" / "vision.launch.py"

# Of the Python interface, beside what tvm_vision itself exports: module -> names.
PUBLIC = {
    "tvm_vision.options": ["CompileOptions"],
    "tvm_vision.runtime.graph_executor": ["create", "GraphExecutor"],
    "tvm_vision.models": ["load_model"],
    "tvm_vision.models.vision_model": ["VisionModel"],
    "tvm_vision.models.yoeo.detector": ["YoeoDetector"],
    "tvm_vision.models.classifier.image_classifier": ["ImageClassifier"],
    "tvm_vision.models.detection.detector": ["ObjectDetector"],
    "tvm_vision.models.pixels.segmenter": ["Segmenter"],
    "tvm_vision.models.pixels.depth": ["DepthEstimator"],
    "tvm_vision.models.thresholds": ["Thresholds"],
    "tvm_vision.models.results": [
        "VisionResult",
        "Detections",
        "SegmentationMask",
        "DepthMap",
        "Classification",
        "Timing",
    ],
    "tvm_vision.models.instance_masks": ["InstanceMasks"],
    "tvm_vision.models.converters": ["to_coco", "to_supervision"],
    "tvm_vision.package": [
        "ModelInfo",
        "Preprocessing",
        "DetectionInfo",
        "SegmentationInfo",
        "DepthInfo",
        "read_package",
        "sign_package",
        "verify_package",
        "PrivateKey",
        "PublicKeys",
    ],
}
# Key of mod.json -> the class that reads it.
MOD_JSON = {
    "mod.json": info.PackageInfo,
    "model": info.ModelInfo,
    "model.preprocessing": info.Preprocessing,
    "model.yoeo": yoeo.YoeoInfo,
    "model.yoeo.heads": yoeo.YoeoHead,
    "model.yoeo.groups": yoeo.ClassGroup,
    "model.detection": detection.DetectionInfo,
    "model.segmentation": pixels.SegmentationInfo,
    "model.depth": pixels.DepthInfo,
    "inputs, outputs": info.TensorInfo,
    "device": info.PackageDevice,
    "memory": info.MemoryUse,
    "graph": graph.PlannedGraph,
    "graph.tensors": graph.PlannedTensor,
    "graph.kernels": graph.PlannedKernel,
    "measured_precision": precision.MeasuredPrecision,
    "measured_precision.kept": precision.Fp32Layer,
    "variants": fleet.Variant,
}


def launch_arguments() -> dict[str, tuple[str, str]]:
    """Argument of the launch file -> default, meaning; read as text, for launch is part of ROS."""
    for node in ast.parse(LAUNCH.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ARGUMENTS":
            assert isinstance(node.value, ast.Dict)
            return {
                ast.literal_eval(key): (_default(value.elts[0]), ast.literal_eval(value.elts[1]))
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if key is not None and isinstance(value, ast.Tuple)
            }
    raise SystemExit(f"{LAUNCH.name} has no ARGUMENTS")


def _default(node: ast.expr) -> str:
    """A text, or, for a path that is put together, its last parts."""
    if isinstance(node, ast.Constant):
        return f'"{node.value!s}"'
    parts = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)]
    return "/".join(map(str, parts))


def launch_table() -> str:
    rows = [(f"`{n}`", f"`{default}`", words) for n, (default, words) in launch_arguments().items()]
    return table("argument | default | meaning", rows)


def options_table() -> str:
    rows = [
        (f"`{name}`", values, default, f"`{variable_of(name)}`", words)
        for name, values, default, words in CompileOptions.describe()
    ]
    return table("option | values | default | in the environment | does", rows)


def variables_table() -> str:
    """The variables of the environment that the native library knows."""
    rows = [
        (f"`{name}`", values, default, when, words)
        for name, values, default, when, words in describe_options()
    ]
    return table("variable | values | default | read at | meaning", rows)


def phases_table() -> str:
    """The compiler's steps in order; the second column is the lowest level that takes each."""
    rows = [
        (str(number), f"`{phase.name}`", phase.ir, str(phase.opt_level))
        for number, phase in enumerate(PHASES)
    ]
    return table("number | step | works on | from level", rows)


def rooms_table() -> str:
    """Each package below tvm_vision, what its docstring says, and what it imports of the others."""
    folders = sorted(path.parent for path in (ROOT / "tvm_vision").glob("*/__init__.py"))
    rows = [(f"`{f.name}`", _first_sentence(f), ", ".join(imports_of(f))) for f in folders]
    for name, folder in (("tvm_vision.tools", "tools"), ("tvm_vision_ros", "ros2_node")):
        there = ROOT / folder
        rows.append((f"`{folder}/` ({name})", _first_sentence(there), ", ".join(imports_of(there))))
    return table("room | holds | imports", rows)


def inner_rooms_table() -> str:
    """Each package within a room, and what its docstring says."""
    package = ROOT / "tvm_vision"
    folders = sorted(path.parent for path in package.glob("*/*/**/__init__.py"))
    rows = [(f"`{f.relative_to(package).as_posix()}`", _first_sentence(f)) for f in folders]
    return table("room | holds", rows)


def _first_sentence(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return " ".join(re.split(r"(?<=[.])\s", text, maxsplit=1)[0].split())


def imports_of(folder: Path) -> list[str]:
    """Rooms of tvm_vision that a folder's files import, within functions too, not for types alone.

    Of files that lie in tvm_vision itself, such as errors.py, nothing is said.
    """
    rooms = {path.parent.name for path in (ROOT / "tvm_vision").glob("*/__init__.py")}
    found = set()
    for file in folder.rglob("*.py"):
        above = ("tvm_vision", *file.relative_to(ROOT / "tvm_vision").parts[:-1]) if (
            ROOT / "tvm_vision" in file.parents
        ) else ()  # fmt: skip
        # Of another package, as TVM is, a module may be called as a room of ours.
        own = (name.split(".") for name in _imported(file, above))
        found |= {parts[1] for parts in own if parts[0] == "tvm_vision" and len(parts) > 1}
    return sorted((found & rooms) - {folder.name})


def _imported(file: Path, above: tuple[str, ...]) -> Iterator[str]:
    """Full names of what a file imports. above: the packages that it lies in."""
    waiting: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = above[: len(above) + 1 - node.level] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # Of ``from . import x`` x is a module, too.
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def mod_json_tables() -> str:
    """Each part of mod.json: what its class says of it, and the types of its keys."""
    parts = []
    for key, cls in MOD_JSON.items():
        rows = [(f"`{f.name}`", f"`{f.type}`") for f in dataclasses.fields(cls)]
        parts.append(f"### {key}\n\n{_text(cls)}\n\n{table('key | type', rows)}")
    return "\n".join(parts)


def python_interface() -> str:
    """Signatures and docstrings of what is public."""
    names = {
        "tvm_vision": [n for n in tvm_vision.__all__ if callable(getattr(tvm_vision, n))],
        **PUBLIC,
        "tvm_vision.errors": [n for n, v in vars(errors).items() if inspect.isclass(v)],
    }
    shown: list[Any] = []
    parts = []
    for module, members in names.items():
        found = [getattr(importlib.import_module(module), name) for name in members]
        new = [item for item in found if item not in shown]
        shown += new
        parts += [f"## {module}\n"] * bool(new) + [_entry(item) for item in new]
    return "\n".join(parts)


def _entry(item: Any) -> str:
    """A function, or a class with its public methods."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(item))).body[0]
    if isinstance(tree, ast.FunctionDef):
        return f"### {item.__name__}\n\n```python\n{_signature(tree)}\n```\n\n{_fenced(tree)}\n"
    assert isinstance(tree, ast.ClassDef)
    bases = ", ".join(map(ast.unparse, tree.bases))
    lines = [f"class {tree.name}{f'({bases})' if bases else ''}"]
    lines += _text_lines(tree, "    ")
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            plain = node.value is None or isinstance(node.value, ast.Constant)
            lines += ["", f"    {ast.unparse(node) if plain else ast.unparse(node.target)}"]
        if isinstance(node, ast.FunctionDef) and (
            not node.name.startswith("_") or node.name in ("__init__", "__call__")
        ):
            marks = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
            lines += ["", *(f"    {mark}" for mark in marks)]
            lines += textwrap.indent(_signature(node), "    ").splitlines()
            lines += _text_lines(node, " " * 8)
    text = "\n".join(lines)
    return f"### {tree.name}\n\n```python\n{text}\n```\n"


def _signature(node: ast.FunctionDef) -> str:
    """``def``, with a line for each argument where one does not hold them all."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"def {node.name}({ast.unparse(node.args)}){result}"
    if len(line) <= 88:
        return line
    arguments = node.args
    bare = ast.arguments([], [], None, [], [], None, [])
    split = []
    first = len(arguments.args) - len(arguments.defaults)
    for i, argument in enumerate(arguments.args):
        defaults = [arguments.defaults[i - first]] if i >= first else []
        split.append(ast.unparse(_only(bare, args=[argument], defaults=defaults)))
    if arguments.vararg:
        split.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        split.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        defaults = [default] if default else []
        split.append(ast.unparse(_only(bare, args=[argument], defaults=defaults)))
    if arguments.kwarg:
        split.append(f"**{ast.unparse(arguments.kwarg)}")
    inner = "\n".join(f"    {argument}," for argument in split)
    return f"def {node.name}(\n{inner}\n){result}"


def _only(bare: ast.arguments, **changed: Any) -> ast.arguments:
    return ast.arguments(**{**dict(ast.iter_fields(bare)), **changed})


def _text_lines(node: ast.ClassDef | ast.FunctionDef, indent: str) -> list[str]:
    text = ast.get_docstring(node)
    return textwrap.indent(f'"""{text}"""', indent).splitlines() if text else []


def _fenced(node: ast.FunctionDef) -> str:
    text = ast.get_docstring(node)
    return f"```text\n{text}\n```" if text else ""


def _text(cls: type) -> str:
    return f"```text\n{inspect.getdoc(cls)}\n```"


DOCUMENTS: dict[Path, dict[str, Callable[[], str]]] = {
    DOCS / "reference" / "node.md": {
        "parameters": markdown,
        "class parameters": class_settings.markdown,
        "arguments": launch_table,
    },
    DOCS / "reference" / "environment.md": {"variables": variables_table},
    DOCS / "reference" / "options.md": {"options": options_table},
    DOCS / "reference" / "mod-json.md": {"keys": mod_json_tables},
    DOCS / "reference" / "python.md": {"interface": python_interface},
    DOCS / "design" / "architecture.md": {
        "phases": phases_table,
        "rooms": rooms_table,
        "inner rooms": inner_rooms_table,
    },
}


if __name__ == "__main__":
    for path, tables in DOCUMENTS.items():
        path.write_text(document(path.read_text("utf-8"), tables, path.name), "utf-8")
