"""Classifiers from PyTorch to ONNX, and what 'compile' finds in the file."""

import sys
import types
from typing import Any

import numpy as np
import onnx
import pytest

from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.exporters.classifier.metadata import METADATA_KEY, read_metadata
from tvm_vision.models.classifier import preset

SEED = 6
LABELS = ("ball", "robot", "nothing")


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="the extra 'export' (torch) is not installed")
    module.manual_seed(SEED)
    return module


@pytest.fixture
def network(torch):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
    ).eval()


@pytest.fixture
def own_module(torch, network, tmp_path, monkeypatch):
    """The module ``own_net`` in the current folder, whose ``make`` makes another such network."""
    text = "import torch.nn as nn\n\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 4, 3, "
    text += "stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))\n"
    (tmp_path / "own_net.py").write_text(text + "\n\ndef number():\n    return 3\n")
    torch.save({"state_dict": network.state_dict()}, tmp_path / "own.pth")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_net", None)


def test_the_file_gives_what_pytorch_gives_and_describes_itself(torch, network, tmp_path):
    from tvm_vision.evaluate import Reference
    from tvm_vision.exporters.classifier.export import export_classifier

    preparation = preset("imagenet", (32, 48))
    path = tmp_path / "net.onnx"
    error = export_classifier(network, path, preprocessing=preparation, labels=LABELS)
    assert error.within(1e-5)
    image = np.random.default_rng(SEED).random((1, 3, 32, 48), np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(image)).numpy()
    found = Reference(path).run({"image": image})["logits"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert read_metadata(path) == (preparation, LABELS)


def test_networks_that_are_no_classifiers_are_refused(torch, network, tmp_path):
    from tvm_vision.exporters.classifier.export import export_classifier

    path = tmp_path / "net.onnx"
    small, unit = preset("unit", (32, 32)), preset("unit", (1, 1))
    with pytest.raises(
        UnsupportedModelError, match=r"one tensor of floats \[1, classes\], and .*4"
    ):
        export_classifier(network[:2], path, preprocessing=small)
    with pytest.raises(InputError, match="3 labels are needed, one a class, found 2"):
        export_classifier(network, path, preprocessing=small, labels=LABELS[:2])
    with pytest.raises(UnsupportedModelError, match=r"for an image \[1, 3, 1, 1\]: RuntimeError"):
        export_classifier(network, path, preprocessing=unit)
    assert list(tmp_path.iterdir()) == []


def test_a_callable_of_ones_own_with_weights(torch, network, own_module):
    from tvm_vision.exporters.classifier.find import find_network

    found = find_network("own_net:make", own_module / "own.pth")
    assert not found.network.training
    assert (found.preprocessing, found.labels) == (None, ())
    image = torch.rand(1, 3, 16, 16)
    assert torch.equal(found.network(image), network(image))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_net:none", "must name a callable .*AttributeError: module 'own_net' has no"),
        ("no_such_module:make", "must name a callable .*ModuleNotFoundError: No module named"),
        ("own_net:number", "'own_net:number' must make a torch.nn.Module, and made a int"),
        ("no_such_network", "of timm, of torchvision or module:callable is needed, found 'no_such"),
    ],
)
def test_names_that_are_not_found(own_module, monkeypatch, name, message):
    from tvm_vision.exporters.classifier.find import find_network

    for library in ("timm", "torchvision"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=message) as caught:
        find_network(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: state.pop("4.bias"),
            r"must have '4.bias' of shape \[3\], and has none: are",
        ),
        (lambda state: state.update({"4.bias": state["0.bias"]}), r"\[3\], and has \[4\]"),
        (lambda state: state.update({"9.bias": state["0.bias"]}), "has '9.bias', for which the"),
    ],
)
def test_weights_of_another_network(torch, network, own_module, change, message):
    from tvm_vision.exporters.classifier.find import find_network

    state = dict(network.state_dict())
    change(state)
    torch.save(state, "other.pth")
    with pytest.raises(InputError, match=message):
        find_network("own_net:make", own_module / "other.pth")


@pytest.mark.parametrize("keep", [1000, -1])
def test_weights_that_were_cut_off(torch, own_module, keep):
    """PyTorch cannot read such a file, and has different words for it: anybody else can."""
    from tvm_vision.exporters.classifier.find import find_network

    path = own_module / "own.pth"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="downloaded whole") as caught:
        find_network("own_net:make", weights=path)
    assert "\n" not in str(caught.value)


def test_a_network_of_timm_brings_its_preparation(torch, network, monkeypatch):
    """With a timm of three lines: the real one is no dependency."""
    from tvm_vision.exporters.classifier.find import find_network

    network.pretrained_cfg = {
        "input_size": (3, 40, 48), "crop_pct": 0.875,
        "mean": (0.5, 0.25, 0.0), "std": (0.2, 0.4, 1.0),
    }  # fmt: skip
    timm: Any = types.ModuleType("timm")
    timm.is_model = lambda name: name == "tinynet"
    timm.create_model = lambda name, pretrained: network
    monkeypatch.setitem(sys.modules, "timm", timm)
    found = find_network("tinynet")
    assert found.network is network
    assert (found.preprocessing.size, found.preprocessing.crop) == ((40, 48), 0.875)
    assert found.preprocessing.mean == pytest.approx((127.5, 63.75, 0.0))
    assert found.preprocessing.std == pytest.approx((51.0, 102.0, 255.0))


def test_metadata_of_another_form_are_refused(tmp_path):
    graph = onnx.helper.make_graph([], "g", [], [])
    model = onnx.helper.make_model(graph)
    onnx.save(model, tmp_path / "plain.onnx")
    assert read_metadata(tmp_path / "plain.onnx") is None
    assert read_metadata(tmp_path / "none.onnx") is None
    onnx.helper.set_model_props(model, {METADATA_KEY: '{"labels": []}'})
    onnx.save(model, tmp_path / "bad.onnx")
    with pytest.raises(InputError, match="must be as classifier-to-onnx writes them.*again"):
        read_metadata(tmp_path / "bad.onnx")
