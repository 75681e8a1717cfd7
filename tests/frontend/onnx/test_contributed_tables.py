"""Rows of tables, lookups, linear layers and support vectors of ai.onnx.ml, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import make_model, of_opset, run_on_cpu, undeclared
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

RNG = np.random.default_rng(8)
ROWS = RNG.standard_normal((6, 4)).astype(np.float32)
KERNELS = {
    "LINEAR": [0.0, 0.0, 3.0],
    "RBF": [0.3, 0.0, 3.0],
    "POLY": [0.5, 1.0, 3.0],
    "SIGMOID": [0.4, 0.2, 3.0],
}


def model_of(operator, x, outputs, version=3, own=True, **attributes):
    """One node of the domain. outputs: name -> type. own: ONNX's own operators are imported, too,
    of which there are none."""
    node = helper.make_node(operator, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(each)), None)
        for name, each in outputs.items()
    ]
    image = helper.make_tensor_value_info("x", kind, x.shape)
    graph = helper.make_graph([node], "g", [image], values)
    opsets = [helper.make_opsetid("ai.onnx.ml", version)]
    opsets += [helper.make_opsetid("", 17)] if own else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def compare(model: onnx.ModelProto, x: np.ndarray) -> None:
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    module, signature = import_onnx(model)
    assert import_onnx(undeclared(model))[1].outputs == signature.outputs
    assert import_onnx(of_opset(model, 8))[1].outputs == signature.outputs
    found = run_on_cpu(module, x)
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == exact.dtype
        np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_of_a_number(kernel, one_class):
    attributes = {
        "n_supports": 5, "support_vectors": RNG.standard_normal(20),
        "coefficients": RNG.standard_normal(5), "rho": [0.2], "kernel_type": kernel,
        "kernel_params": KERNELS[kernel], "one_class": one_class,
    }  # fmt: skip
    compare(model_of("SVMRegressor", ROWS, {"y": np.float32}, **attributes), ROWS)


def test_a_linear_layer_of_a_number():
    attributes = {
        "coefficients": RNG.standard_normal(4), "rho": [0.2], "kernel_type": "LINEAR",
        "kernel_params": KERNELS["LINEAR"],
    }  # fmt: skip
    compare(model_of("SVMRegressor", ROWS, {"y": np.float32}, **attributes), ROWS)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_of_classes(kernel, classes):
    sizes = [2, 3, 1, 2][:classes]
    attributes = {
        "classlabels_ints": [7, 5, 9, 1][:classes], "vectors_per_class": sizes,
        "support_vectors": RNG.standard_normal(4 * sum(sizes)),
        "coefficients": RNG.standard_normal((classes - 1) * sum(sizes)),
        "rho": RNG.standard_normal(classes * (classes - 1) // 2),
        "kernel_type": kernel, "kernel_params": KERNELS[kernel],
    }  # fmt: skip
    outputs = {"label": np.int64, "scores": np.float32}
    for x in (ROWS, np.arange(-12, 12).reshape(6, 4)):
        compare(model_of("SVMClassifier", x, outputs, **attributes), x)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_layers_of_classes(classes, positive):
    weight = RNG.standard_normal(4 * classes)
    attributes = {
        "classlabels_ints": [7, 5, 9][:classes], "rho": [0.1], "kernel_type": "LINEAR",
        "coefficients": np.abs(weight) if positive else weight,
        "kernel_params": KERNELS["LINEAR"],
    }  # fmt: skip
    outputs = {"label": np.int64, "scores": np.float32}
    rows = np.concatenate((ROWS, -np.abs(ROWS), 0.1 * ROWS))
    compare(model_of("SVMClassifier", rows, outputs, **attributes), rows)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("categories", [[1, 2, 3], [4, 2, 2, -1]])
def test_categories(categories, dtype):
    x = np.array([[1, 2], [-1, 9]], dtype)
    compare(model_of("OneHotEncoder", x, {"y": np.float32}, cats_int64s=categories), x)


LISTS: dict[str, list[Any]] = {"int64s": [4, -2, 9, 4], "floats": [0.5, -2.0, 9.0, 0.5]}
TYPES: dict[str, Any] = {"int64s": np.int64, "floats": np.float32}


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("values", LISTS)
@pytest.mark.parametrize("keys", LISTS)
def test_labels_of_lists(keys, values, default):
    attributes: dict[str, Any] = {
        f"keys_{keys}": LISTS[keys],
        f"values_{values}": LISTS[values][::-1],
    }
    if default:
        name, number = ("default_int64", 77) if values == "int64s" else ("default_float", 7.5)
        attributes[name] = number
    x = np.array([[*LISTS[keys], 100]], TYPES[keys])
    compare(model_of("LabelEncoder", x, {"y": TYPES[values]}, 2, **attributes), x)


@pytest.mark.parametrize("values", [np.int64, np.float32])
@pytest.mark.parametrize("keys", [np.int64, np.float32])
def test_labels_of_tensors(keys, values):
    numbers = [1, 2, 2, 3 if keys is np.int64 else np.nan]
    attributes = {
        "keys_tensor": numpy_helper.from_array(np.array(numbers, keys)),
        "values_tensor": numpy_helper.from_array(np.array([4, 5, 6, 7], values)),
        "default_tensor": numpy_helper.from_array(np.array([9], values)),
    }
    x = np.array([*numbers, 50], keys)
    compare(model_of("LabelEncoder", x, {"y": values}, 4, **attributes), x)


SVM = {
    "kernel_type": "LINEAR", "kernel_params": KERNELS["LINEAR"], "rho": [0.1],
    "vectors_per_class": [1, 1], "support_vectors": [1.0] * 8, "coefficients": [1.0, -1.0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "attributes", "words"),
    [
        ("SVMClassifier", {**SVM, "classlabels_strings": ["a", "b"]}, "labels are text.*numbers"),
        (
            "SVMClassifier",
            {**SVM, "classlabels_ints": [0, 1], "prob_a": [1.0], "prob_b": [1.0]},
            "probabilities.*without probability=True",
        ),
        (
            "SVMClassifier",
            {**SVM, "classlabels_ints": [0, 1], "post_transform": "PROBIT"},
            "transformed.*use no post_transform",
        ),
        ("OneHotEncoder", {"cats_strings": ["a"]}, "categories are text.*numbers"),
        (
            "LabelEncoder",
            {"keys_floats": [1.0], "values_strings": ["a"]},
            "values are no numbers.*let keys and values be numbers",
        ),
        (
            "LabelEncoder",
            {"keys_floats": [1.0, 2.0], "values_floats": [1.0]},
            "2 keys and 1 values.*give each a value",
        ),
    ],
)
def test_what_is_text_or_iterates_is_refused(operator, attributes, words):
    outputs = {"label": np.int64, "scores": np.float32}
    outputs = outputs if operator == "SVMClassifier" else {"y": np.float32}
    with pytest.raises(NodesRefused, match=words):
        import_onnx(model_of(operator, ROWS, outputs, **attributes))


@pytest.mark.parametrize("lost", [*SVM, "classlabels_ints"])
@pytest.mark.parametrize("operator", ["SVMClassifier", "SVMRegressor"])
def test_what_lacks_an_attribute_is_refused_in_one_line_or_right(operator, lost):
    of_classes = operator == "SVMClassifier"
    attributes = SVM | ({"classlabels_ints": [3, 1]} if of_classes else {"n_supports": 2})
    attributes.pop(lost, None)
    outputs = {"label": np.int64, "scores": np.float32}
    outputs = outputs if operator == "SVMClassifier" else {"y": np.float32}
    model = model_of(operator, ROWS, outputs, **attributes)
    try:
        import_onnx(model)
    except NodesRefused as error:
        assert len(str(error).splitlines()) == 1


def test_a_file_without_onnxs_own_operators():
    """skl2onnx imports what it uses alone."""
    attributes = {"offset": [1.0], "scale": [0.5]}
    compare(model_of("Scaler", ROWS, {"y": np.float32}, own=False, **attributes), ROWS)
    model = model_of("TreeEnsemble", ROWS, {"y": np.float32}, own=False)
    with pytest.raises(NodesRefused, match="TreeEnsemble"):
        import_onnx(model)


@pytest.mark.parametrize("shape", [(3, 4), (4,)])
def test_columns_that_are_chosen_at_run_time(shape):
    rows, places = RNG.standard_normal(shape).astype(np.float32), np.array([[2, 0, 2]])
    values = [("x", rows), ("places", places)]
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values
    ]
    node = helper.make_node("ArrayFeatureExtractor", ["x", "places"], ["y"], domain="ai.onnx.ml")
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(values))
    (found,) = run_on_cpu(import_onnx(model)[0], rows, places)
    np.testing.assert_array_equal(found, wanted)


TABLE = np.array([[1, -2, 3, 0.5], [0, 0, 0, 0], [-4, -1, 2, 8], [9, 9, -9, 0]], np.float32)
COEFFICIENTS = np.random.default_rng(7).standard_normal(12).astype(np.float32)
TABLES: dict[str, dict[str, Any]] = {
    "Scaler": {"offset": [1.0, 2.0, 0.5, 0.0], "scale": [0.5, 0.25, 2.0, 1.0]},
    "Scaler of all": {"offset": [1.0], "scale": [0.5]},
    "Normalizer": {"norm": "MAX"},
    "Normalizer by sums": {"norm": "L1"},
    "Normalizer by squares": {"norm": "L2"},
    "LinearRegressor": {"coefficients": TABLE[:2].ravel(), "intercepts": [0.5, -1.0], "targets": 2},
    "Binarizer": {"threshold": 0.5},
    "FeatureVectorizer": {"inputdimensions": [4]},
    "Imputer": {"imputed_value_floats": [5.0], "replaced_value_float": 0.0},
    "Imputer of columns": {"imputed_value_floats": [5.0, 6, 7, 8], "replaced_value_float": 9.0},
}
# onnxruntime has the others of real numbers alone.
OF_INTEGERS = ("Scaler", "Normalizer")
ROW_CASES = [(name, TensorProto.FLOAT) for name in TABLES]
ROW_CASES += [(name, TensorProto.INT64) for name in TABLES if name.startswith(OF_INTEGERS)]


@pytest.mark.parametrize(("name", "dtype"), ROW_CASES)
def test_rows_of_classical_machine_learning(name, dtype):
    operator = name.partition(" ")[0]
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=dtype),
        helper.make_node(operator, ["c"], ["y"], domain="ai.onnx.ml", **TABLES[name]),
    ]
    made = (4, 2 if operator == "LinearRegressor" else 4)
    model = make_model(nodes, [("x", TABLE.shape)], [("y", made)], opset=17, domain="ai.onnx.ml")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": TABLE})
    (result,) = run_on_cpu(import_onnx(model)[0], TABLE)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_what_is_missing_can_be_nan():
    rows = np.where(TABLE == 9, np.nan, TABLE).astype(np.float32)
    options = {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": float("nan")}
    node = helper.make_node("Imputer", ["x"], ["y"], domain="ai.onnx.ml", **options)
    model = make_model([node], [("x", rows.shape)], [("y", rows.shape)], domain="ai.onnx.ml")
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": rows})
    np.testing.assert_array_equal(run_on_cpu(import_onnx(model)[0], rows)[0], expected)


def test_columns_of_a_table():
    places = ("i", np.array([3, 0]))
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")
    model = make_model([node], [("x", (4, 4))], [("y", (4, 2))], [places], domain="ai.onnx.ml")
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": TABLE})
    np.testing.assert_array_equal(run_on_cpu(import_onnx(model)[0], TABLE)[0], expected)


@pytest.mark.parametrize("kind", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_a_linear_classifier(kind):
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", post_transform=kind,
        coefficients=COEFFICIENTS, intercepts=[0.5, -1.0, 0.1], classlabels_ints=[7, 2, 4],
    )  # fmt: skip
    model = make_model([node], [("x", (4, 4))], [("y", (4, 3))], domain="ai.onnx.ml")
    model.graph.output.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, (4,)))
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": TABLE})
    label, scores = run_on_cpu(import_onnx(model)[0], TABLE)
    np.testing.assert_array_equal(label, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "labels", [{"classlabels_strings": ["a", "b"]}, {"classlabels_ints": [0, 1]}]
)
def test_a_linear_classifier_that_has_no_such_words_is_refused(labels):
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", intercepts=[0.5],
        coefficients=COEFFICIENTS[:4], **labels,
    )  # fmt: skip
    model = make_model([node], [("x", (4, 4))], [("y", (4, 2))], domain="ai.onnx.ml")
    with pytest.raises(NodesRefused, match=r"LinearClassifier .*labels.*: (let|give)"):
        import_onnx(model)
