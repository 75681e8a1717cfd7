"""--input-value: of compile, check and inspect, and what the package keeps."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def two_rates(tmp_path_factory):
    """A product with a matrix or a vector, of results that differ in rank, chosen by a rate."""
    weights = {"rate": np.array(16000), "wide": np.eye(4, 6), "narrow": np.arange(4)}

    def branch(name):
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        node = helper.make_node("MatMul", ["x", name], [f"{name}_y"], name=f"{name}_product")
        return helper.make_graph([node], name, [], [out])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is_wide"]),
        helper.make_node(
            "If", ["is_wide"], ["y"], then_branch=branch("wide"), else_branch=branch("narrow")
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "rates",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4)),
         helper.make_tensor_value_info("sr", TensorProto.INT64, ())],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value if name == "rate" else value.astype(np.float32), name)
         for name, value in weights.items()],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("rates") / "rates.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_a_package_of_one_rate(command, two_rates, tmp_path):
    package = tmp_path / "voice.tar"
    refused = command("compile", two_rates, "-o", package, "--target", "llvm")
    assert refused.exit_code == 1 and "--input-value sr=..." in refused.stderr
    given = ["--target", "llvm", "--input-value", "sr=8000"]
    result = command("compile", two_rates, "-o", package, *given, "--check")
    assert result.exit_code == 0, result.output
    assert "y       float32[2] " in result.stdout
    assert "constant     sr = 8000, an input of the model" in command("inspect", package).stdout
    layers = command("profile", package, "--per-layer-error", two_rates, "--repeat", "1")
    assert layers.exit_code == 0, layers.output


def test_tune_and_quantize_take_it(command, two_rates, tmp_path):
    listed = command(
        "tune", two_rates, "-r", tmp_path / "records.jsonl", "--list-tasks",
        "--target", "renoir", "--input-value", "sr=16000",
    )  # fmt: skip
    assert listed.exit_code == 0, listed.output
    np.savez(tmp_path / "sample.npz", x=np.ones((2, 4), np.float32))
    made = tmp_path / "int8.onnx"
    result = command(
        "quantize", two_rates, "-o", made, "--sample-images", tmp_path / "sample.npz",
        "--input-value", "sr=16000",
    )  # fmt: skip
    # So small a network becomes larger, which is said where it was read and quantized.
    assert result.exit_code == 1 and "would become" in result.stderr, result.output


@pytest.mark.parametrize("value", ["sr", "=3", "sr=", "sr=fast", 'sr="8"', "sr={}", "sr=[[1]]"])
def test_what_is_no_value(command, two_rates, tmp_path, value):
    result = command("compile", two_rates, "-o", tmp_path / "p.tar", "--input-value", value)
    assert result.exit_code == 2
    assert f"NAME=NUMBER or NAME=NUMBER,... is needed, found '{value}'" in result.stderr


def test_several_numbers():
    import click

    from tools.options import parse_values

    context, values = (
        click.Context(click.Command("one")),
        ("a=1,2.5", "b=[3, 4]", "c=true", "d/e=-1"),
    )
    found = parse_values(context, click.Argument(["value"]), values)
    assert found == {"a": [1, 2.5], "b": [3, 4], "c": True, "d/e": -1}
