"""run, benchmark, check, profile and inspect, on a package made by hand, on the CPU."""

import json
import subprocess
import sys
import time

import cv2
import numpy as np
import onnx
import pytest

from support import handmade, packages, reports
from tvm_vision.frontend.signature import TensorSpec
from tvm_vision.package import ModelInfo, Preprocessing, write_package

X = np.array([-1, 0.5, 2, 1], np.float32)


@pytest.fixture
def x_file(tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path / "x.npz"


@pytest.mark.parametrize("content", [b"\x80\x04rubbish", None])
def test_objects_are_refused_without_a_word_on_how_to_load_them(
    refuses, tiny_package, tmp_path, content
):
    path = tmp_path / "x.npz"
    if content is None:
        np.savez(path, q=np.array([{}], dtype=object))
    else:
        path.write_bytes(content)
    said = refuses("run", tiny_package, "--inputs", path)
    assert "is not an .npz file of arrays of numbers: write one by numpy.savez" in said
    assert "allow_pickle" not in said and "unsafely" not in said


def test_run_from_npz_to_npz(command, tiny_package, x_file, tmp_path):
    result = command(
        "run", tiny_package, "--inputs", x_file, "--output", tmp_path / "new" / "y.npz"
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("device: cpu(0)")
    assert "y       float32[1, 3]" in result.stdout
    with np.load(tmp_path / "new" / "y.npz") as outputs:
        assert outputs.files == ["y"]
        np.testing.assert_allclose(outputs["y"], handmade.expected(X), rtol=1e-6)


def test_run_takes_the_spellings_of_tvmc(command, tiny_package, x_file, tmp_path):
    result = command(
        "run", tiny_package, "-i", x_file, "--outputs", tmp_path / "y.npz", "--print_time"
    )
    assert result.exit_code == 0, result.output
    assert "time: median" in result.stdout


def test_run_prints_the_largest_values(command, tiny_package):
    result = command("run", tiny_package, "--fill-mode", "ones", "--print-top", "2")
    values = handmade.expected(np.ones(4, np.float32))[0]
    assert result.stdout.splitlines()[-2:] == [f"y[2] = {values[2]:g}", f"y[1] = {values[1]:g}"]


def test_run_with_profile(command, tiny_package):
    result = command("run", tiny_package, "--profile", "--repeat", "2")
    assert "matmul_add  MatMul_0 Add_1  cpu0" in result.stdout
    assert "unexplained" in result.stdout


def test_random_inputs_are_the_same_each_time(command, tiny_package, tmp_path):
    for name in ("a.npz", "b.npz"):
        command("run", tiny_package, "-o", tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "the inputs x: float32[4] are needed, and 'x' is missing"),
        ({"z": X}, "and 'z' is not among them, 'x' is missing"),
        ({"x": X[:3]}, "and 'x' is float32[3]"),
        ({"x": X.astype(np.float64)}, "and 'x' is float64[4]"),
    ],
)
def test_inputs_that_do_not_fit(refuses, tiny_package, tmp_path, arrays, message):
    np.savez(tmp_path / "in.npz", **arrays)
    output = tmp_path / "y.npz"
    assert message in refuses("run", tiny_package, "--inputs", tmp_path / "in.npz", "-o", output)
    assert not output.exists()


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 broken", b"text", b"\x80\x04K\x01."])
def test_files_that_are_no_npz(refuses, tiny_package, tmp_path, content):
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    assert f"'{path}' is " in refuses("run", tiny_package, "--inputs", path)


def test_pickled_objects_are_not_loaded(refuses, tiny_package, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([print], dtype=object))
    assert "is not an .npz file" in refuses("run", tiny_package, "--inputs", tmp_path / "in.npz")


def test_nan_is_noted(command, tiny_package, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([np.nan, np.inf, 1, 2], np.float32))
    result = command("run", tiny_package, "--inputs", tmp_path / "in.npz")
    assert result.exit_code == 0
    assert "note: input 'x' has 2 values that are NaN or infinite of 4" in result.stderr


def test_an_output_that_cannot_be_written(refuses, tiny_package):
    assert "cannot be written (" in refuses("run", tiny_package, "-o", tiny_package / "y.npz")


def test_an_image_needs_a_network_of_images(refuses, tiny_package, tmp_path):
    cv2.imwrite(str(tmp_path / "cat.png"), np.zeros((9, 9, 3), np.uint8))
    said = refuses("run", tiny_package, "--image", tmp_path / "cat.png")
    assert "takes x: float32[4]: pass --inputs" in said and "--preprocess" not in said
    assert "is not there" in refuses("run", tiny_package, "--image", tmp_path / "dog.png")


def test_inputs_and_image_exclude_each_other(command, tiny_package, x_file):
    assert command("run", tiny_package, "--inputs", x_file, "--image", "a.png").exit_code == 2


def test_a_device_that_the_package_is_not_for(refuses, tiny_package):
    message = refuses("run", tiny_package, "--device", "vulkan")
    assert "device vulkan was asked for, but the package was compiled for cpu; compile" in message


@pytest.mark.parametrize("name", ["run", "benchmark", "inspect", "profile"])
def test_every_command_refuses_a_damaged_package(refuses, tiny_package, tmp_path, name):
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(tiny_package.read_bytes()[:-20000])
    assert "damaged.tar': it cannot be read: " in refuses(name, damaged)
    assert "cannot be opened" in refuses(name, tmp_path / "none.tar")


def test_code_that_is_no_library(refuses, tmp_path):
    path = packages.write_sample(tmp_path / "fake.tar")
    assert "mod.so of the package cannot be loaded" in refuses("run", path)


def test_a_graph_that_the_library_does_not_have(refuses, tmp_path):
    graph = packages.sample_graph()
    graph["kernels"][1]["function"] = "softplus"
    path = tmp_path / "p.tar"
    write_package(path, handmade.Compiled(handmade.library(), graph=graph), handmade.MODEL)
    assert "softplus" in refuses("run", path)


def test_benchmark(command, tiny_package):
    result = command("benchmark", tiny_package, "--repeat", "3", "--number", "2", "--json")
    times = json.loads(result.stdout)
    assert times["repeat"] == 3
    assert times["number"] == 2
    assert 0 < times["min_ms"] <= times["median_ms"] <= times["max_ms"]
    assert command("benchmark", tiny_package, "--repeat", "3").stdout.startswith("median ")


def test_packages_side_by_side(command, tiny_package, tmp_path, refuses):
    other = tmp_path / "other.tar"
    other.write_bytes(tiny_package.read_bytes())
    # Each turn is warmed up for a quarter of a second otherwise.
    options = ["--repeat", "7", "--warmup", "0"]
    result = command("benchmark", tiny_package, other, *options)
    header, *rows = result.stdout.splitlines()
    assert header.split("  ")[0] == "package"
    assert [row.split()[0] for row in rows] == [str(tiny_package), str(other)]
    assert rows[0].split()[-1] == "1.00"
    documents = json.loads(command("benchmark", tiny_package, other, *options, "--json").stdout)
    assert [document["package"] for document in documents] == [str(tiny_package), str(other)]
    assert all(d["repeat"] == 7 and 0 < d["device_ms"] for d in documents)
    assert "cannot be opened" in refuses("benchmark", tiny_package, tmp_path / "none.tar")
    assert command("benchmark").exit_code == 2


def test_frames_at_a_rate(command, tiny_package):
    start = time.monotonic()
    options = ["--repeat", "3", "--warmup", "1", "--rate", "20"]
    result = command("benchmark", tiny_package, *options, "--json")
    assert time.monotonic() - start >= 3 * 0.05
    assert json.loads(result.stdout)["rate"] == 20
    assert command("profile", tiny_package, *options).exit_code == 0
    assert command("benchmark", tiny_package, "--rate", "-1").exit_code == 2


def test_profile(command, tiny_package, model):
    result = command("profile", tiny_package, "--repeat", "3", "--per-layer-error", model)
    assert result.exit_code == 0, result.output
    header, first, second, *rest = result.stdout.splitlines()
    assert header.split()[-3:] == ["max", "rel", "error"]
    assert first.split()[1:5] == ["matmul_add", "MatMul_0", "Add_1", "cpu0"]
    assert float(second.split()[-1]) < 1e-6
    assert [line.split()[0] for line in rest if line] == [
        "sum", "span", "upload", "read-back", "wall", "unexplained", "ceilings",
    ]  # fmt: skip
    document = json.loads(command("profile", tiny_package, "--json", "--repeat", "2").stdout)
    assert [kernel["nodes"] for kernel in document["kernels"]] == [
        ["MatMul_0", "Add_1"],
        ["Relu_2"],
    ]
    assert {"sum_us", "span_us", "upload_us", "readback_us", "wall_us"} <= set(document)


def test_profile_to_look_at(command, refuses, tiny_package, model, tmp_path):
    """A page and a trace, and the same network beside what was saved of it, and beside itself."""
    files = {name: tmp_path / "new" / name for name in ("page.html", "trace.json")}
    options = ["--repeat", "2", "--html", files["page.html"], "--trace", files["trace.json"]]
    result = command("profile", tiny_package, *options, "--per-layer-error", model, "--json")
    assert result.exit_code == 0, result.output
    page = reports.Page(files["page.html"].read_text())
    assert page.document("profile") == json.loads(result.stdout)
    assert page.document("profile")["layer_errors"][0]["max_rel"] < 1e-6
    events = json.loads(files["trace.json"].read_text())["traceEvents"]
    assert {"frame 0", "matmul_add", "relu"} <= {event["name"] for event in events}
    assert "clocks host" in result.stderr
    saved = tmp_path / "saved.json"
    saved.write_text(result.stdout)
    for before in (saved, tiny_package):
        options = ["--repeat", "2", "--compare", before, "--html", files["page.html"]]
        result = command("profile", tiny_package, *options)
        assert result.stdout.splitlines()[-1].startswith(f"{before.name}: span ")
        changes = reports.Page(files["page.html"].read_text()).document("changes")["changes"]
        assert sorted(" ".join(change["nodes"]) for change in changes) == [
            "MatMul_0 Add_1", "Relu_2"
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(kernels={}), "kernels must be a list, found an object with 0 fields"),
        (lambda d: d["kernels"][0].pop("nodes"), "the field kernels[0].nodes is missing"),
        (lambda d: d["kernels"][1].update(median_us=-1), "kernels[1].median_us must be 0 or more"),
        (lambda d: d.update(format="else"), "format must be 'tvm_vision profile'"),
    ],
)
def test_a_saved_profile_that_is_none(refuses, tiny_package, tmp_path, change, message):
    document = {
        "format": "tvm_vision profile", "device_description": "d", "span_us": 3.0,
        "kernels": [{"function": "f", "nodes": ["a"], "median_us": 1.5} for _ in range(2)],
    }  # fmt: skip
    change(document)
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(document))
    found = refuses("profile", tiny_package, "--compare", saved)
    assert message in found and "save it again with 'tvm-vision profile --json'" in found


def test_check_passes_and_fails(command, refuses, tiny_package, model, tmp_path):
    result = command("check", tiny_package, model)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].endswith("ok")
    assert json.loads(command("check", tiny_package, model, "--json").stdout)[0]["max_rel"] < 1e-6

    other = onnx.load(model)
    other.graph.initializer[0].raw_data = (1.01 * packages.WEIGHTS["p0"]).tobytes()
    onnx.save(other, tmp_path / "other.onnx")
    message = refuses("check", tiny_package, tmp_path / "other.onnx")
    assert "y must be within 0.001 of the reference's, and is not" in message
    loose = command("check", tiny_package, tmp_path / "other.onnx", "--tolerance", "0.1")
    assert loose.exit_code == 0


def test_check_with_another_model(refuses, tiny_package, model, tmp_path):
    other = onnx.load(model)
    other.graph.input[0].name = other.graph.node[0].input[1] = "elsewhere"
    onnx.save(other, tmp_path / "other.onnx")
    message = refuses("check", tiny_package, tmp_path / "other.onnx")
    assert "the model's inputs elsewhere are needed, found x" in message
    assert "is not there" in refuses("check", tiny_package, tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("text")
    assert "text.onnx' is text" in refuses("check", tiny_package, tmp_path / "text.onnx")


def test_inspect(command, tmp_path):
    model = ModelInfo("tiny", "classifier", ("a", "b", "c"), Preprocessing((2, 2), crop=0.5))
    write_package(tmp_path / "p.tar", handmade.Compiled(handmade.library()), model)
    result = command("inspect", tmp_path / "p.tar", "--kernels")
    assert result.exit_code == 0, result.output
    for line in (
        "model        tiny (classifier, 3 labels)",
        "input        x: float32[4]",
        "output       y: float32[1, 3]",
        "image        2x2 rgb, crop 0.5, area",
        "kernels      2 calls of 2 functions",
        "memory       100 B peak: 60 B weights, 40 B activations",
        "precision    fp32, optimisation level 3",
        "1  relu        float32[3]                          float32[3]  Relu_2",
    ):
        assert line in result.stdout.splitlines()
    document = json.loads(command("inspect", tmp_path / "p.tar", "--json").stdout)
    assert document["model"]["preprocessing"]["crop"] == 0.5


def test_unpack_edit_repack(command, refuses, tiny_package, tmp_path):
    folder, again = tmp_path / "tiny", tmp_path / "again.tar"
    assert "wrote" in command("package", "unpack", tiny_package, folder).stdout
    assert command("run", folder).exit_code == 0
    text = (folder / "mod.json").read_text()
    (folder / "mod.json").write_text(text.replace('"tiny"', '"large"'))
    assert "use 'tvm-vision package repack'" in refuses("run", folder)
    assert "large, 2 kernels" in command("package", "repack", folder, again).stdout
    assert "model        large" in command("inspect", again).stdout


def test_the_command_as_a_process(tiny_package, x_file, tmp_path):
    code = "import sys; from tvm_vision.tools.cli import main; main(sys.argv[1:])"
    start = [sys.executable, "-c", code, "run", str(tiny_package)]
    good = subprocess.run([*start, "--inputs", str(x_file)], capture_output=True, text=True)
    assert good.returncode == 0, good.stderr
    assert good.stdout.splitlines()[1].split()[:2] == ["y", "float32[1,"]
    bad = subprocess.run([*start, "--inputs", "none.npz"], capture_output=True, text=True)
    assert bad.returncode == 1
    assert bad.stderr.splitlines()[-1] == (
        "Error: an .npz file is needed, and 'none.npz' is not there: check the path"
    )
    assert "Traceback" not in bad.stderr


def test_more_memory_than_there_is(refuses, tmp_path):
    # No machine has an address space of 3 TiB to spare; the kernels never run.
    size = 2**38
    names = ("x", "between", "y")
    graph = {
        "storages": [4 * size] * 3,
        "tensors": [packages.tensor([size], index) for index in range(len(names))],
        "params": {},
        "inputs": [0],
        "outputs": [2],
        "kernels": [
            {"function": "relu", "args": [index, index + 1], "num_outputs": 1, "nodes": []}
            for index in range(2)
        ],
    }
    x, y = (TensorSpec(name, (size,), "float32") for name in ("x", "y"))
    compiled = handmade.Compiled(
        handmade.library(), graph=graph, params={}, inputs=(x,), outputs=(y,)
    )
    write_package(tmp_path / "huge.tar", compiled, ModelInfo("huge"))
    assert "Error: " in refuses("run", tmp_path / "huge.tar")


def test_layers_of_another_model(refuses, tiny_package, model, tmp_path):
    other = onnx.load(model)
    for node in other.graph.node:
        node.name = f"other_{node.name}"
    onnx.save(other, tmp_path / "other.onnx")
    message = refuses("profile", tiny_package, "--per-layer-error", tmp_path / "other.onnx")
    assert "and none has a name of it: is this the model that the package was made from?" in message
    assert "'none' is not there" in refuses("profile", tiny_package, "--per-layer-error", "none")
