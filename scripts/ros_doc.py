"""Write the tables of docs/ros.md from the sources: python scripts/ros_doc.py.

A test compares the file with what this makes. Only what stands between the marks is replaced.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tvm_vision_ros.settings import markdown

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "ros.md"
LAUNCH = ROOT / "launch" / "vision.launch.py"


def document(text: str) -> str:
    """The text with its tables made anew."""
    for name, table in (("parameters", markdown()), ("arguments", launch_table())):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = mark.subn(lambda found, table=table: found[1] + table + found[2], text)
        if count != 1:
            raise SystemExit(f"{TARGET.name} needs the marks <!-- {name} --> and <!-- end --> once")
    return text


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
        return f'"{node.value}"'
    parts = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)]
    return "/".join(map(str, parts))


def launch_table() -> str:
    lines = ["| argument | default | meaning |", "|---|---|---|"]
    for name, (default, meaning) in launch_arguments().items():
        lines.append(f"| `{name}` | `{default}` | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(document(TARGET.read_text("utf-8")), "utf-8")
