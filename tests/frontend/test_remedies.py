"""Whatever a front end refuses, its one line ends with what can be done."""

import ast
import inspect
from pathlib import Path

import pytest

import tvm_vision
from support.conformance.conformance_worker import REMEDY
from tvm_vision.frontend.onnx.graph import Unsupported
from tvm_vision.frontend.refusals import CUT, Cut, NodesRefused, Refusal, Remedy, describe

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
        Refusal("Det", "d", "TVM has no such operator", CUT),
        Refusal("LSTM", "l", "coupled", Remedy("train anew")),
        Refusal("DFT", "f", "TVM has no such operator", CUT),
        Refusal("Det", "e", "TVM has no such operator", CUT),
    ]
    missing = "DFT (TVM has no such operator) at 'f', Det (TVM has no such operator) at 'd', 'e'"
    assert describe(refusals) == (
        f"4 nodes cannot be imported: {missing}: end the model before it, as 'compile --cut' does, "
        "or express it by other operators; LSTM (coupled) at 'l': train anew"
    )
    assert str(NodesRefused(refusals).without_cut()) == (
        f"4 nodes cannot be imported: {missing}: express it by other operators; LSTM (coupled) at "
        "'l': train anew"
    )


@pytest.mark.parametrize(
    ("remedy", "text", "once_cut", "elsewhere"),
    [
        (Remedy("train anew"), "train anew", "train anew", "train anew"),
        (
            Remedy("give 'k'", Cut("what 'k' decides")),
            "give 'k', or end the model before what 'k' decides, as 'compile --cut' does",
            "give 'k'",
            "give 'k', or use onnxruntime for this model",
        ),
        (
            Remedy(Cut(), Remedy("b", Cut()), "b"),
            "end the model before it, as 'compile --cut' does, or b",
            "b",
            "use onnxruntime for this model, or b",
        ),
        (
            Remedy(Cut()),
            "end the model before it, as 'compile --cut' does",
            "",
            "use onnxruntime for this model",
        ),
    ],
)
def test_a_cut_is_one_way_among_others(remedy, text, once_cut, elsewhere):
    assert str(remedy) == text
    assert str(remedy.without_cut()) == once_cut
    assert remedy.without_cut().behind("why") == (f"why: {once_cut}" if once_cut else "why")
    assert str(remedy.with_engine("onnxruntime")) == elsewhere


def test_only_the_remedy_itself_says_how_a_cut_is_advised():
    """Elsewhere the words would be no part that can be taken out again."""
    found = [path for path in ROOT.glob("**/*.py") if "as 'compile --cut' does" in path.read_text()]
    assert found == [ROOT / "frontend/refusals.py"]
