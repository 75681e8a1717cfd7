"""A quantized TFLite file through the commands: compile, check, inspect."""

import json

import numpy as np
import pytest

from support.tflite_models import Graph


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Twelve numbers times a matrix of int8."""
    graph = Graph()
    x = graph.tensor((1, 12), "int8", scale=0.02, zero_point=3, name="numbers")
    matrix = np.random.default_rng(1).integers(-127, 128, (5, 12)).astype(np.int8)
    y = graph.tensor((1, 5), "int8", scale=0.1, zero_point=-7, name="scores")
    graph.operator("FULLY_CONNECTED", [x, graph.tensor(data=matrix, scale=0.05)], [y])
    return graph.write(tmp_path_factory.mktemp("tflite") / "dense.tflite", [x], [y])


@pytest.mark.parametrize("raw", [False, True])
def test_a_file_is_compiled_checked_and_described(command, network, tmp_path, raw):
    package = tmp_path / "dense.tar"
    options = ["--raw-io"] if raw else []
    made = command("compile", network, "-o", package, "--target", "llvm", "--check", *options)
    assert made.exit_code == 0, made.output
    assert "scores" in made.stdout and "ok" in made.stdout
    described = json.loads(command("inspect", package, "--json").stdout)
    (tensor,) = described["inputs"]
    assert tensor["dtype"] == ("int8" if raw else "float32")
    steps = tensor["quantization"]
    assert (steps["dtype"], steps["zero_point"]) == ("int8", 3)
    assert steps["scale"] == pytest.approx(0.02)


def test_layers_are_held_to_the_file(command, network, tmp_path):
    package = tmp_path / "dense.tar"
    command("compile", network, "-o", package, "--target", "llvm")
    result = command("profile", package, "--per-layer-error", network)
    assert result.exit_code == 0, result.output
    assert "scores" in result.stdout


def test_what_is_damaged_is_refused_in_a_line(refuses, network, tmp_path):
    path = tmp_path / "half.tflite"
    path.write_bytes(network.read_bytes()[:200])
    line = refuses("compile", path, "-o", tmp_path / "half.tar", "--target", "llvm")
    assert "a whole TFLite file is needed" in line
