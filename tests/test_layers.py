"""The rooms lie in layers: what is below never imports what is above, and nothing goes in circles.

Imports within functions and for types alone count as well.
"""

from __future__ import annotations

import ast

import pytest

from support.imports import circles, imports, modules

# From below; a name is that of a module, and stands for all that lies in it, but for longer names
# of this list.
LAYERS = (
    "version errors error_lines lazy interrupts environment target_keys target_lists hosts "
    "processors side_threads standard_streams child_processes freed_memory cache collecting "
    "tvm_compat.quick_import",
    "with_tvm",
    "plain_files whole_files drivers options",
    "cache.files",
    "package.container",
    "file_kinds linking",
    "package",
    "tvm_compat",
    "vulkan.options",
    "vulkan.codegen.glsl",
    "vulkan.codegen",
    "vulkan",
    "devices cache.devices_here",
    "runtime",
    "models",
    # From here on a robot needs none of it.
    "frontend topi",
    "schedules.key schedules.factors schedules.cost.device_model schedules.cost.tile_costs",
    "schedules.common",
    "schedules.cost schedules.coverage schedules.iter_maps",
    "schedules.gpu schedules.cpu",
    "schedules",
    "compiler.target",
    "compiler.tir",
    "compiler.kernels",
    "compiler.relax",
    "compiler.graph",
    "compiler.precision",
    "compiler",
    "evaluate offline",
    "report",
    "exporters",
    "tuning",
    "cache.packages",
    "api",
    "fleets",
    "doctor",
    "evaluate.board_session",
    "evaluate.boards",
    "evaluate.variants",
    "demo",
    "tools",
    "__main__",
)
LEVEL = {f"tvm_vision.{name}": i for i, names in enumerate(LAYERS) for name in names.split()}
ON_A_ROBOT = LEVEL["tvm_vision.models"]


def level(module: str) -> int:
    """The layer of the longest name that a module lies in."""
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        if (name := ".".join(parts[:end])) in LEVEL:
            return LEVEL[name]
    raise AssertionError(f"{module} lies in no layer: put it into LAYERS")


def above(found: dict[str, set[str]]) -> list[str]:
    """Imports that go upwards. The front door, tvm_vision itself, opens to everything."""
    wrong = []
    for name, others in found.items():
        if name == "tvm_vision":
            continue
        top = ON_A_ROBOT if name.startswith("tvm_vision_ros") else level(name)
        for other in sorted(others - {"tvm_vision"}):
            if not other.startswith("tvm_vision_ros") and level(other) > top:
                wrong.append(f"{name} imports {other}")
    return wrong


def test_nothing_imports_what_lies_above_it() -> None:
    assert above(imports()) == []


def test_nothing_goes_in_circles() -> None:
    graph = {name: others - {"tvm_vision"} for name, others in imports().items()}
    assert circles(graph) == []


def test_only_those_outside_go_in_by_the_front_door() -> None:
    """tvm_vision imports all others on first use, so that what is inside would go in a circle."""
    found = imports()
    inside = {n for n in modules() if n.startswith("tvm_vision.") and ".tools" not in n}
    assert sorted(n for n in inside if "tvm_vision" in found[n]) == []


def private_uses(source: str) -> list[str]:
    """Names of TVM with an underscore before them that a source imports or reaches for."""
    tree, theirs, found = ast.parse(source), set(), []
    for node in ast.walk(tree):
        stem = getattr(node, "module", None) or ""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            theirs |= {(a.asname or a.name).split(".")[0] for a in node.names if _of_tvm(a.name)}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{stem}.{alias.name}" for alias in node.names]
            theirs |= {a.asname or a.name for a in node.names if _of_tvm(stem)}
        else:
            continue
        found += [name for name in names if _of_tvm(name) and "._" in name]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            text = ast.unparse(node)
            found += [text] if text.split(".")[0] in theirs else []
    return found


def _of_tvm(name: str) -> bool:
    return name.split(".")[0] in ("tvm", "tvm_ffi")


def test_what_is_private_in_tvm_is_used_in_one_room() -> None:
    found = {
        name: uses
        for name, path in modules().items()
        if not name.startswith("tvm_vision.tvm_compat")
        and (uses := private_uses(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tvm.target import _ffi_api",
        "import tvm\ntvm.relax._ffi_api.f()",
        "import tvm_ffi as t\nt._x",
    ],
)
def test_a_private_use_is_found(source: str) -> None:
    assert private_uses(source)


@pytest.mark.parametrize(
    ("name", "other", "found"),
    [
        ("tvm_vision.runtime.loader", "tvm_vision.compiler.build", 1),
        ("tvm_vision.vulkan.codegen.spirv", "tvm_vision.vulkan.device", 1),
        ("tvm_vision_ros.node", "tvm_vision.compiler", 1),
        ("tvm_vision.compiler.build", "tvm_vision.runtime.loader", 0),
    ],
)
def test_an_import_upwards_is_found(name: str, other: str, found: int) -> None:
    assert len(above({name: {other}})) == found


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}
    assert circles(graph) == [["b", "c"]]
