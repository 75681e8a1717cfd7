"""PyTorch models against PyTorch itself, and one line for each refusal."""

import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tvm_vision
from support.onnx_models import run_on_cpu
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.frontend.torch import import_torch
from tvm_vision.tools.cli import main

SEED = 3


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="the extra 'export' (torch) is not installed")
    module.manual_seed(SEED)
    return module


@pytest.fixture
def network(torch: Any) -> Any:
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.features = torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
                torch.nn.BatchNorm2d(8),
                torch.nn.Hardswish(),
                torch.nn.MaxPool2d(2),
            )
            self.head = torch.nn.Linear(8, 5)

        def forward(self, image):
            features = self.features(image)
            larger = torch.nn.functional.interpolate(features, scale_factor=2.0, mode="bilinear")
            return self.head(features.mean((2, 3))), larger

    return Network().eval()


def test_a_module_gives_what_pytorch_gives(torch, network):
    image = torch.rand(1, 3, 16, 16)
    module, signature = import_torch(network, (image,))
    assert [str(spec) for spec in signature.inputs] == ["image: float32[1, 3, 16, 16]"]
    assert [str(spec) for spec in signature.outputs] == [
        "output_0: float32[1, 5]",
        "output_1: float32[1, 8, 8, 8]",
    ]
    with torch.no_grad():
        expected = network(image)
    for result, reference in zip(run_on_cpu(module, image.numpy()), expected, strict=True):
        np.testing.assert_allclose(result, reference.numpy(), rtol=1e-4, atol=1e-5)


def test_variables_are_named_after_the_layers(torch, network):
    from tvm_vision.frontend.node_names import node_name

    module, _ = import_torch(network, (torch.rand(1, 3, 16, 16),))
    names = {node_name(b.var.name) for b in module["main"].body.blocks[0].bindings}
    assert {"features.0/conv2d", "head/linear"} <= names


def test_an_exported_program_and_its_file(torch, network, tmp_path):
    program = torch.export.export(network, (torch.rand(1, 3, 16, 16),))
    path = tmp_path / "network.pt2"
    torch.export.save(program, path)
    assert import_torch(program)[1] == import_torch(path)[1]


def test_an_operator_that_tvm_lacks_is_named(torch: Any) -> None:
    class Triangle(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.qr(x)[1]

    with pytest.raises(
        UnsupportedModelError,
        match=r"cannot be imported: aten\.linalg_qr\.default .*exporter.* at 'linalg_qr': end the",
    ) as caught:
        import_torch(Triangle().eval(), (torch.rand(3, 3),))
    assert "\n" not in str(caught.value)


def test_places_masks_and_sums_by_index(torch: Any) -> None:
    """What the importer of ONNX files has rules of its own for."""

    class Voxels(torch.nn.Module):
        def forward(self, x, places):
            largest = torch.zeros(8).scatter_reduce(0, places, x, "amax", include_self=False)
            sums = torch.zeros(8).index_add(0, places, x)
            clipped = x.clone()
            clipped[x < 0] = -1
            return largest.max(), sums, clipped, places // 3, torch.nonzero(x > 0)

    x, places = torch.randn(12), torch.randint(0, 8, (12,))
    module, signature = import_torch(Voxels().eval(), (x, places))
    found = run_on_cpu(module, x.numpy(), places.numpy())
    names = [spec.name for spec in signature.outputs]
    assert names == [*(f"output_{number}" for number in range(5)), "output_4_count"]
    *expected, positive = (part.numpy() for part in Voxels()(x, places))
    for result, reference in zip(found, expected, strict=False):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[4][: found[5]], positive)


def test_small_constants_count(torch: Any) -> None:
    class Entropy(torch.nn.Module):
        def forward(self, p):
            return -(p * torch.log(p + 1e-10)).sum(), torch.rsqrt(p + 1e-9)

    p = torch.tensor([0.0, 0.25, 0.75])
    module, _ = import_torch(Entropy().eval(), (p,))
    for result, reference in zip(run_on_cpu(module, p.numpy()), Entropy()(p), strict=True):
        np.testing.assert_allclose(result, reference.numpy(), rtol=1e-5)


def test_a_number_among_the_outputs_is_refused(torch: Any) -> None:
    """PyTorch's exporter to ONNX fails by an AttributeError there; what is None it leaves out."""

    class Counted(torch.nn.Module):
        def forward(self, x):
            return x * 2, len(x)

    class Bare(torch.nn.Module):
        def forward(self, x):
            return x * 2, None

    with pytest.raises(UnsupportedModelError, match="output 1 is 3 for every input: leave it out"):
        import_torch(Counted().eval(), (torch.ones(3, 2),))
    _, signature = import_torch(Bare().eval(), (torch.ones(3, 2),))
    assert [str(spec) for spec in signature.outputs] == ["output_0: float32[3, 2]"]


def test_open_sizes_and_small_inputs_are_given(torch: Any) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x, factor):
            return x.sum(1) * factor

    given = (torch.randn(3, 5), torch.tensor(2.0))
    sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("width")}, "factor": {}}
    program = torch.export.export(Scaled().eval(), given, dynamic_shapes=sizes)
    with pytest.raises(UnsupportedModelError, match=r"input 'x' is .*--input-shape"):
        import_torch(program)
    x = torch.randn(2, 7)
    module, signature = import_torch(
        program, input_shapes={"x": (2, 7)}, input_values={"factor": 3.0}
    )
    assert [str(spec) for spec in signature.inputs] == ["x: float32[2, 7]"]
    np.testing.assert_allclose(run_on_cpu(module, x.numpy())[0], x.numpy().sum(1) * 3, rtol=1e-5)


def test_nodes_of_one_module_have_names_of_their_own(torch: Any) -> None:
    from tvm_vision.frontend.node_names import node_name

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.sigmoid(self.layer(torch.tanh(self.layer(x))))

    module, _ = import_torch(Twice().eval(), (torch.rand(2, 4),))
    names = {node_name(b.var.name) for b in module["main"].body.blocks[0].bindings}
    assert {"layer/linear", "layer/linear_1", "tanh", "sigmoid"} <= names


def test_without_a_part_of_the_exporter_the_extra_is_named(torch, network, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"onnxscript.*pip install 'tvm_vision\[export\]'"):
        import_torch(network, (torch.rand(1, 3, 16, 16),))


def test_what_is_no_model_of_pytorch(torch, network, tmp_path):
    with pytest.raises(InputError, match="found int"):
        import_torch(3)
    with pytest.raises(InputError, match=r"trains: call \.eval\(\) first"):
        import_torch(network.train(), (torch.rand(1, 3, 16, 16),))
    with pytest.raises(InputError, match="example inputs are needed"):
        import_torch(network.eval())
    with pytest.raises(InputError, match="is not there"):
        import_torch(tmp_path / "none.pt2")
    (tmp_path / "bad.pt2").write_bytes(b"bad\0")
    with pytest.raises(UnsupportedModelError, match=r"not a program of torch\.export\.save"):
        import_torch(tmp_path / "bad.pt2")
    with pytest.raises(UnsupportedModelError, match="torch.export cannot export"):
        import_torch(network, (torch.rand(1, 4, 16, 16),))


def test_without_pytorch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'tvm_vision\[export\]'"):
        import_torch("model.pt2")


@pytest.mark.parametrize("values", [{}, {"scale": 3.0}], ids=["inputs", "an input as a constant"])
def test_a_program_is_checked_and_its_layers_compared(
    torch: Any, network: Any, values: Any, tmp_path: Any
) -> None:
    """By the ONNX model that it was imported by."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, image, scale):
            found, larger = self.network(image * scale)
            return found, larger

    program = torch.export.export(
        Scaled().eval(), (torch.rand(1, 3, 16, 16), torch.tensor([2.0]))
    )  # fmt: skip
    path, package = tmp_path / "network.pt2", tmp_path / "network.tar"
    torch.export.save(program, path)
    tvm_vision.compile(path, package, target="llvm", input_values=values)
    for words in (["check"], ["profile", "--per-layer-error", "--device", "cpu"]):
        given = [*words[:1], str(package), str(path)] if words == ["check"] else [
            *words[:2], str(path), *words[2:], str(package)
        ]  # fmt: skip
        done = CliRunner().invoke(main, given)
        assert done.exit_code == 0, done.output
        assert "output_0" in done.output or "conv2d" in done.output
