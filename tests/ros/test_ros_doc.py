"""docs/reference/node.md has every parameter and argument of the node."""

import importlib.util
from pathlib import Path

import pytest

from tvm_vision_ros.settings import parameters

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts" / "reference_doc.py"
    spec = importlib.util.spec_from_file_location("reference_doc", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_parameter_and_argument_is_there(script):
    text = (script.DOCS / "reference" / "node.md").read_text("utf-8")
    for name in [*parameters(), *script.launch_arguments()]:
        assert f"| `{name}` |" in text
    assert all(meaning.endswith(".") for _, meaning in script.launch_arguments().values())
