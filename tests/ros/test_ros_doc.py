"""docs/reference/node.md has every parameter and argument of the node."""

import pytest

from support.scripts import load_script
from tvm_vision_ros.settings import parameters


@pytest.fixture(scope="module")
def script():
    return load_script("scripts/reference_doc.py")


def test_every_parameter_and_argument_is_there(script):
    text = (script.DOCS / "reference" / "node.md").read_text("utf-8")
    for name in [*parameters(), *script.launch_arguments()]:
        assert f"| `{name}` |" in text
    assert all(meaning.endswith(".") for _, meaning in script.launch_arguments().values())
