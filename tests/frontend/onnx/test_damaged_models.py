"""Models that cannot be: one line says so, whatever ONNX's own tools make of them."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_vision
from support import SUPPORT
from support.onnx_models import conv_model, make_model, run_on_cpu
from tvm_vision.errors import InputError, TvmVisionError, UnsupportedModelError
from tvm_vision.frontend.onnx import tools
from tvm_vision.frontend.onnx.load import import_onnx

# Found to be slow, to need all memory or to end the process, when this was written, and others.
FIRST, COUNT = 0, 300
LARGE = 1 << 30


def refusal(model, kind=TvmVisionError):
    with pytest.raises(kind) as caught:
        tvm_vision.compile(model, target="llvm")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_stride(value, operator="Conv"):
    model = conv_model()
    node = model.graph.node[0]
    node.op_type = operator
    del node.input[1 if "Pool" in operator else 3 :]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("strides", [value, value]))
    node.attribute.append(helper.make_attribute("kernel_shape", [3, 3]))
    return model


@pytest.mark.parametrize("operator", ["Conv", "MaxPool", "AveragePool", "LpPool"])
def test_what_ends_shape_inference_is_named(operator):
    """Releases of onnx since 1.20 do not end, and the node is refused behind them."""
    message = refusal(with_stride(0, operator))
    ends = f"dies (SIGFPE) of {operator} '{operator}_0' (strides [0, 0], kernel_sh"
    assert ends in message or f"{operator} (strides of [0, 0]) at '{operator}_0'" in message


def test_the_next_model_after_one_that_ends_the_tools():
    refusal(with_stride(0))
    import_onnx(conv_model())


def weight_of(model, **changes):
    weight = model.graph.initializer[0]
    for name, value in changes.items():
        if name == "dims":
            weight.dims[:] = value
        else:
            setattr(weight, name, value)
    return model


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": [400, 3, 3, 3]}, "43200 bytes are needed for the weight 'w' of shape .* has 432"),
        ({"dims": [4, 3, 3, -3]}, "sizes of at least 0 are needed, and the weight 'w'"),
        ({"dims": [1 << 62, 1 << 62]}, "bytes are needed for the weight 'w'"),
        ({"data_type": 99}, "the weight 'w' is of the unknown type 99"),
        ({"data_type": TensorProto.DOUBLE}, "864 bytes are needed for the weight 'w'"),
        ({"raw_data": b"123"}, "has 3: the model is damaged"),
    ],
)
def test_weights_that_do_not_fill_their_shape(changes, message):
    assert re.search(message, refusal(weight_of(conv_model(), **changes)))


def test_an_input_of_an_unknown_type():
    model = conv_model()
    model.graph.input[0].type.tensor_type.elem_type = 99
    assert "'x' is of the unknown type 99" in refusal(model)


def test_an_input_of_text():
    node = helper.make_node("Identity", ["x"], ["y"])
    sides = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
    graph = helper.make_graph([node], "text", sides[:1], sides[1:])
    opset = [helper.make_opsetid("", 17)]
    found = refusal(helper.make_model(graph, opset_imports=opset, ir_version=8))
    assert "the input 'x' is one of strings: export the model without" in found


def grown(operator, *inputs, weights):
    node = helper.make_node(operator, ["x", *inputs], ["y"])
    return make_model([node], [("x", (1, 3, 8, 8))], [("y", tuple("nchw"))], weights)


@pytest.mark.parametrize(
    "model",
    [
        grown("Resize", "", "by", weights=[("by", np.array([1, 1, 1e9, 1e9], np.float32))]),
        grown("Tile", "by", weights=[("by", np.array([1, 1, LARGE, LARGE]))]),
        grown("Expand", "to", weights=[("to", np.array([LARGE, 3, 8, 8]))]),
        grown("Pad", "by", weights=[("by", np.array([0, 0, LARGE, 0, 0, 0, LARGE, 0]))]),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_results_of_more_elements_than_can_be_counted(model):
    assert "at most 2147483647 elements are needed, and " in refusal(model)


def test_constants_that_no_file_could_hold():
    nodes = [
        helper.make_node("Tile", ["one", "by"], ["long"]),
        helper.make_node("Add", ["x", "long"], ["y"]),
    ]
    weights = [("one", np.ones(1, np.float32)), ("by", np.array([LARGE]))]
    model = make_model(nodes, [("x", (1,))], [("y", ("n",))], weights)
    assert "constants of at most 2147483647 bytes are needed, and Tile" in refusal(model)


@pytest.mark.parametrize(
    "operator", ["Concat", "Einsum", "Max", "Mean", "Min", "SequenceConstruct", "Sum"]
)
@pytest.mark.parametrize("inputs", [["x", ""], ["", "x"], [""]])
def test_a_value_that_is_left_out_of_a_list(operator, inputs):
    node = helper.make_node(operator, inputs, ["y"], name="list")
    options = {"Concat": ("axis", 0), "Einsum": ("equation", "ij,ij->ij")}
    if operator in options:
        node.attribute.append(helper.make_attribute(*options[operator]))
    model = make_model([node], [("x", (3, 8))], [("y", None)], [], opset=17)
    assert f"of {operator} at 'list', and input {inputs.index('')} has no name" in refusal(model)


def test_shapes_that_a_model_declares_wrongly_do_not_count():
    model = onnx.shape_inference.infer_shapes(conv_model())
    model.graph.value_info[0].type.tensor_type.shape.dim[3].dim_value = 1
    _, signature = import_onnx(model)
    assert signature.outputs[0].shape == (1, 4, 4, 4)


def test_a_function_that_calls_itself():
    node = helper.make_node("Again", ["x"], ["y"], domain="acme")
    model = make_model([node], [("x", (3,))], [("y", (3,))], domain="acme")
    body = [helper.make_node("Again", ["a"], ["b"], domain="acme")]
    opsets = [helper.make_opsetid("acme", 1)]
    model.functions.append(helper.make_function("acme", "Again", ["a"], ["b"], body, opsets))
    refusal(model, UnsupportedModelError)


def external(folder, place, held=432):
    model = conv_model()
    weight = model.graph.initializer[0]
    values = weight.raw_data
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in place.items():
        weight.external_data.add(key=key, value=str(value))
    (folder / "w.bin").write_bytes(b"\0" * 16 + values[: held - 16] if held else b"")
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"location": "w.bin", "length": 1 << 62}, "that they are 4611686018427387904 from byte 0"),
        ({"location": "w.bin", "offset": 1 << 62}, "432 bytes from byte 4611686018427387904"),
        ({"location": "w.bin", "offset": -1}, "from byte -1"),
        ({"location": "w.bin", "offset": "x"}, "export the model again"),
        ({"location": "w.bin", "offset": 16}, "the file has 432: copy all files"),
        ({"location": "none.bin"}, "no such file is there"),
        ({"location": "pipe"}, "no such file is there"),
        ({}, "no such file is there"),
    ],
)
def test_weights_in_a_file_that_lacks_them(tmp_path, place, message):
    os.mkfifo(tmp_path / "pipe")
    path = external(tmp_path, place)
    assert message in refusal(path, InputError)


def test_weights_in_a_file_of_which_only_the_place_is_known(tmp_path):
    path = external(tmp_path, {"location": "w.bin", "offset": 16}, held=1000)
    _, signature = import_onnx(path)
    assert signature.outputs[0].shape == (1, 4, 4, 4)


def test_models_larger_than_a_message(monkeypatch):
    """Of more than 2 GB: what does not fit does not have to be sent."""
    model = conv_model()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((64, 3, 9, 9), "f4"), "w"))
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(64, "f4"), "b"))
    data = np.ones((1, 3, 9, 9), np.float32)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 9
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 9
    monkeypatch.setattr(tools, "LARGEST_MESSAGE", 8 * tools.SMALL)
    module, signature = import_onnx(model)
    assert signature.outputs[0].shape == (1, 64, 1, 1)
    assert run_on_cpu(module, data)[0].max() == 6


def test_a_step_that_takes_too_long_is_ended():
    tools._WORKER.close()  # Its start takes longer.
    with pytest.raises(tools.ToolDied, match="takes more than 0 s"):
        tools.run("check", conv_model(), limit=0.0)
    tools.run("check", conv_model())


def test_where_no_second_python_can_be_started(monkeypatch):
    tools._WORKER.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(InputError, match="'/nowhere/python' cannot be started .No such file"):
        import_onnx(conv_model())


def test_the_process_that_was_started_ahead_is_the_one_that_answers():
    tools._WORKER.close()
    tools.start()
    started = tools._WORKER._process.pid
    tools.start()
    tools.run("check", conv_model())
    assert tools._WORKER._process.pid == started


def test_the_process_of_the_tools_ends_with_its_parent():
    program = (
        "import onnx\n"
        "from tvm_vision.frontend.onnx import tools as t\n"
        "try: t.run('check', onnx.ModelProto())\n"
        "except t.ToolError: pass\n"
        "print(t._WORKER._process.pid, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    process = Path("/proc") / done.stdout.strip()
    deadline = time.monotonic() + 30
    while process.exists() and (process / "stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, f"{process} still runs"
        time.sleep(0.05)


def test_models_damaged_at_random():
    """Never a signal, a traceback, or more than bounded memory and time."""
    program = SUPPORT / "mutate_models.py"
    done = subprocess.run(
        [sys.executable, str(program), str(FIRST), str(COUNT)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"ended with {done.returncode} at: {lines[-1:]}\n{done.stderr}"
    bad = [line for line in lines if "TRACEBACK" in line or "SLOW" in line]
    assert len(lines) == COUNT
    assert bad == []


@pytest.mark.parametrize("nodes", [[], [helper.make_node("Relu", ["x"], ["y"])]])
def test_a_model_that_gives_nothing(nodes):
    assert "a model with outputs is needed" in refusal(make_model(nodes, [("x", (3, 8))], [], []))
