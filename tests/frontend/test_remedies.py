"""Whatever a front end refuses, its one line ends with what can be done."""

import ast
import inspect
from pathlib import Path

import pytest

import tvm_vision
from support.conformance.conformance_worker import REMEDY
from tvm_vision.frontend.onnx.graph import Unsupported
from tvm_vision.frontend.refusals import Refusal, describe

ROOT = Path(tvm_vision.__file__).parent
SOURCES = [*sorted(ROOT.glob("frontend/**/*.py")), ROOT / "compiler/graph/lower.py"]
ERRORS = ("InputError", "UnsupportedModelError")


def raised_texts():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            call = node.exc
            if getattr(call.func, "id", "") in ERRORS:
                # Refused nodes have their remedy from the type Refusal.
                text = ast.unparse(call.args[0])
                if not text.startswith("describe("):
                    yield pytest.param(text, id=f"{path.stem}-{node.lineno}")


@pytest.mark.parametrize("text", list(raised_texts()))
def test_each_text_says_what_to_do(text):
    assert REMEDY.search(text), text


def test_there_is_no_refusal_without_a_remedy():
    for kind in (Refusal, Unsupported):
        assert inspect.signature(kind).parameters["remedy"].default is inspect.Parameter.empty


def test_nodes_of_one_remedy_share_it():
    refusals = [
        Refusal("Det", "d", "TVM has no such operator", "end the model before it"),
        Refusal("LSTM", "l", "coupled", "train anew"),
        Refusal("DFT", "f", "TVM has no such operator", "end the model before it"),
        Refusal("Det", "e", "TVM has no such operator", "end the model before it"),
    ]
    assert describe(refusals) == (
        "4 nodes cannot be imported: DFT (TVM has no such operator) at 'f', Det (TVM has no such "
        "operator) at 'd', 'e': end the model before it; LSTM (coupled) at 'l': train anew"
    )
