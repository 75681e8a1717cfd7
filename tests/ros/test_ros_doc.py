"""docs/ros.md has the tables that the sources make."""

import importlib.util
from pathlib import Path

import pytest

from tvm_vision_ros.settings import parameters

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("ros_doc", ROOT / "scripts" / "ros_doc.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_up_to_date(script):
    text = script.TARGET.read_text("utf-8")
    assert script.document(text) == text, "docs/ros.md is older: python scripts/ros_doc.py"


def test_every_parameter_and_argument_is_there(script):
    text = script.TARGET.read_text("utf-8")
    for name in [*parameters(), *script.launch_arguments()]:
        assert f"| `{name}` |" in text
    assert all(meaning.endswith(".") for _, meaning in script.launch_arguments().values())


def test_a_document_without_the_marks_is_not_overwritten(script):
    with pytest.raises(SystemExit, match="needs the marks"):
        script.document("# nothing\n")
