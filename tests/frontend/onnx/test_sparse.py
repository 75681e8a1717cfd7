"""Sparse weights, by their places in the tensor or along each axis, are the plain ones."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support.onnx_models import make_model, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = 3, 4
AXES = [[0, 0], [1, 1], [2, 3]]
VALUES = [1.5, -2.0, 3.0]


def sparse(places, shape=SHAPE):
    array = np.array(places, np.int64)
    return helper.make_sparse_tensor(
        helper.make_tensor("w", TensorProto.FLOAT, (len(places),), VALUES),
        helper.make_tensor("places", TensorProto.INT64, array.shape, array.flatten()),
        list(shape),
    )


def model_of(weight: onnx.SparseTensorProto, as_node: bool) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if as_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=weight))
    model = make_model(nodes, [("x", (2, 3))], [("y", (2, 4))])
    if not as_node:
        model.graph.sparse_initializer.append(weight)
    return model


@pytest.mark.parametrize("as_node", [False, True])
@pytest.mark.parametrize("places", [AXES, [0, 5, 11]])
def test_sparse_weights(places, as_node):
    model = model_of(sparse(places), as_node)
    before = model.SerializeToString()
    weight = np.zeros(SHAPE, np.float32)
    weight[tuple(np.transpose(AXES))] = VALUES
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run_on_cpu(import_onnx(model)[0], x)[0], x @ weight)
    assert model.SerializeToString() == before


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        (sparse([0, 5, 12]), "places within"),
        (sparse([[0, 0], [1, 1], [3, 0]]), "places within"),
        (sparse([0, 5, 11], (1 << 20, 1 << 20)), "written out are needed"),
    ],
)
def test_what_has_no_plain_form(weight, line):
    with pytest.raises(UnsupportedModelError, match=f"{line}.*'w'.*: export the model"):
        import_onnx(model_of(weight, as_node=True))
