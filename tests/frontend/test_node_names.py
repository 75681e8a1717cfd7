"""Node names as variable names: back and forth for any name, and one for each node."""

import re

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tvm_vision.frontend.node_names import name_nodes, node_name, variable_hint

NAMES = st.text(st.characters(codec="utf-8"), min_size=1)


@given(NAMES)
def test_every_name_comes_back(name):
    hint = variable_hint(name)
    assert re.fullmatch(r"\w+", hint, re.ASCII)
    assert node_name(hint) == name
    # A builder numbers variables of the same hint.
    assert node_name(f"{hint}7") == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Conv_0", "Conv_0_xn"),
        ("/model.0/Conv", "_x2fmodel_x2e0_x2fConv_xn"),
        ("a_x2f_xn1", "a_x5fx2f_x5fxn1_xn"),
    ],
)
def test_plain_names_stay_readable(name, hint):
    assert variable_hint(name) == hint


@pytest.mark.parametrize("variable", ["lv", "gv1", "x", "_xn", "input_1"])
def test_other_variables_belong_to_no_node(variable):
    assert node_name(variable) is None


def test_nodes_without_a_name_get_one_and_equal_names_are_told_apart():
    names = ["", "a", "a", "Relu_0", ""]
    nodes = [helper.make_node("Relu", ["x"], [f"y{i}"], name=n) for i, n in enumerate(names)]
    graph = onnx.GraphProto(node=nodes)
    name_nodes(graph)
    assert [node.name for node in graph.node] == ["Relu_0", "a", "a.1", "Relu_0.1", "Relu_4"]
