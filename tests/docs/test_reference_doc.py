"""What docs/ has from the sources is what they say now, and lacks nothing of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.scripts import load_script
from tvm_vision.options import CompileOptions, variable_of

ROOT = Path(__file__).resolve().parents[2]
script = load_script("scripts/reference_doc.py")


@pytest.mark.parametrize("page", script.DOCUMENTS, ids=lambda page: page.name)
def test_documents_are_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    made = script.document(text, script.DOCUMENTS[page], page.name)
    assert made == text, f"{page.relative_to(ROOT)} is older: python scripts/reference_doc.py"


def test_a_document_without_the_marks_is_not_overwritten() -> None:
    with pytest.raises(SystemExit, match="needs the marks <!-- keys -->"):
        script.document("# nothing\n", {"keys": str})


def test_every_variable_that_is_read_is_documented() -> None:
    """Python names them in quotes, C++ does, too; macros and include guards are not in quotes."""
    page = (ROOT / "docs" / "reference" / "environment.md").read_text("utf-8")
    options = {variable_of(name) for name, *_ in CompileOptions.describe()}
    found = set()
    for folder in ("tvm_vision", "tools", "ros2_node"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".cc", ".h"):
                text = path.read_text("utf-8")
                found |= set(re.findall(r'"(TVM_VISION_[A-Z_]+[A-Z])"', text))
    assert found - options <= set(re.findall(r"`(TVM_VISION_[A-Z_]+)`", page))
    assert len(found) > 8


def test_modules_of_others_are_no_rooms_of_ours(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "from tvm import topi\nimport other.schedules\nfrom tvm_vision import vulkan\n"
        "from tvm_vision.package.info import x\n"
    )
    assert script.imports_of(tmp_path) == ["package", "vulkan"]


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "from ..models import draw\n"
        "from .. import vulkan\n"
        "if TYPE_CHECKING:\n    from ..tuning import records\n"
        "def f():\n    import tvm_vision.package.info\n"
    )
    names = set(script._imported(file, ("tvm_vision", "runtime")))
    assert {"tvm_vision.models.draw", "tvm_vision.vulkan", "tvm_vision.package.info"} <= names
    assert not any("tuning" in name for name in names)
