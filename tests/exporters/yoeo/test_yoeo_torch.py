"""The network in PyTorch, against the reference and against the ONNX file; its checkpoints."""

import importlib
import sys

import numpy as np
import pytest

from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.exporters.yoeo import weights as weights_module
from tvm_vision.exporters.yoeo.parameters import all_parameters
from tvm_vision.exporters.yoeo.weights import load_weights, read_weights, save_darknet_weights

SEED = 5


@pytest.fixture
def build(torch):
    """The network of a case with its weights, in evaluation mode."""

    def make(case):
        from tvm_vision.exporters.yoeo.network import Yoeo

        network = Yoeo(case.config).eval()
        load_weights(network, case.weights)
        return network

    return make


def outputs_of(torch, network, image):
    with torch.no_grad():
        detections, mask = network(torch.from_numpy(image))
    named = {"Detections": detections, "Segmentations": mask}
    return {name: value.numpy() for name, value in named.items() if value is not None}


def test_pytorch_gives_what_the_reference_gives(torch, build, case):
    case.check(outputs_of(torch, build(case), case.image))


def test_training_mode_gives_what_the_heads_see(torch, build, case):
    network = build(case)
    with torch.no_grad():
        heads, logits = network.raw(torch.from_numpy(case.image))
    for head, expected in zip(heads, case.expected.heads, strict=True):
        np.testing.assert_allclose(head[0], expected, rtol=1e-4, atol=1e-4)
    if case.expected.logits is None:
        assert logits is None
    else:
        np.testing.assert_allclose(logits[0], case.expected.logits, rtol=1e-4, atol=1e-4)
    images = torch.from_numpy(case.image).repeat(2, 1, 1, 1)
    trained_heads, trained_logits = network.train()(images)
    assert [head.shape[1:] for head in trained_heads] == [head.shape[1:] for head in heads]
    results = [*trained_heads, *([] if trained_logits is None else [trained_logits])]
    sum(result.square().mean() for result in results).backward()
    missing = [name for name, value in network.named_parameters() if value.grad is None]
    assert missing == []


def test_the_names_are_those_of_yoeo(build, case):
    state = build(case).state_dict()
    names = {name for name in state if not name.endswith("num_batches_tracked")}
    assert names == {name for _, name, _ in all_parameters(case.config)}


def test_another_size_and_more_images(torch, build, leaky):
    network = build(leaky)
    images = torch.rand(2, 3, 32, 64, generator=torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        both, masks = network(images)
        one, mask = network(images[1:])
    assert both.shape == (2, 3 * (2 * 4 + 4 * 8), 8)
    torch.testing.assert_close(both[1:], one, rtol=1e-4, atol=1e-4)
    assert (masks.shape, masks.dtype) == ((2, 32, 64), torch.uint8)
    assert torch.equal(masks[1:], mask)


def test_the_onnx_file_is_compared_and_written(build, case, tmp_path):
    from tvm_vision.evaluate import Reference
    from tvm_vision.exporters.yoeo.export import export_onnx

    network = build(case).train()
    errors = export_onnx(network, tmp_path / "yoeo.onnx", opset=17)
    assert network.training
    assert all(error.within(1e-4) for error in errors)
    case.check(Reference(tmp_path / "yoeo.onnx").run({"InputLayer": case.image}))
    raw = export_onnx(network, tmp_path / "raw.onnx", raw_heads=True)
    assert raw is not None
    assert len(raw) == len(case.expected.heads) + (case.expected.logits is not None)


def test_an_onnx_file_that_disagrees_is_not_written(build, leaky, tmp_path, monkeypatch):
    from tvm_vision.exporters.yoeo import onnx_graph
    from tvm_vision.exporters.yoeo.export import export_onnx

    # As if the two parts of the code took leaky for different things.
    monkeypatch.setattr(onnx_graph, "LEAKY_SLOPE", 0.3)
    with pytest.raises(UnsupportedModelError, match="within 0.001 of PyTorch's, and 'Detections"):
        export_onnx(build(leaky), tmp_path / "yoeo.onnx")
    assert list(tmp_path.iterdir()) == []


def test_darknet_weights_of_a_network_in_pytorch(build, case, tmp_path):
    save_darknet_weights(build(case), tmp_path / "saved.weights")
    assert (tmp_path / "saved.weights").read_bytes()[20:] == case.weights.read_bytes()[20:]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": {f"module.{name}": value for name, value in state.items()}},
        lambda state: {name: v for name, v in state.items() if "anchor" not in name},
        lambda state: {name: v for name, v in state.items() if "num_batches" not in name},
        lambda state: {
            name: v.double() if v.is_floating_point() else v for name, v in state.items()
        },
    ],
    ids=["plain", "wrapped", "parallel", "without anchors", "without counters", "doubles"],
)
def test_checkpoints_are_read(torch, build, leaky, wrap, zipped, tmp_path):
    state = build(leaky).state_dict()
    path = tmp_path / "yoeo.pth"
    torch.save(wrap(state), path, _use_new_zipfile_serialization=zipped)
    expected = read_weights(leaky.config, leaky.weights)
    found = read_weights(leaky.config, path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_the_anchors_of_a_checkpoint_count(torch, build, leaky, tmp_path):
    state = build(leaky).state_dict()
    state["module_list.9.yolo_9.anchor_grid"] *= 2
    torch.save(state, tmp_path / "yoeo.pth")
    network = build(leaky)
    before = outputs_of(torch, network, leaky.image)["Detections"]
    load_weights(network, tmp_path / "yoeo.pth")
    after = outputs_of(torch, network, leaky.image)["Detections"]
    first = 3 * 4 * 6
    np.testing.assert_allclose(after[0, :first, 2:4], 2 * before[0, :first, 2:4], rtol=1e-6)
    np.testing.assert_array_equal(after[0, first:], before[0, first:])


class NotATensor:
    """Something of another program's."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [1, 2],
            "must hold weights named module_list.*, on top or under state_dict, .* found list",
        ),
        ({}, "found nothing"),
        ({"fc.weight": None}, "found fc.weight"),
        ({"a": NotATensor()}, "holds Python objects beside tensors, and they are not loaded"),
        (
            {"module_list.0.conv_0.weight": 3},
            "'module_list.0.conv_0.weight' must be a tensor, found",
        ),
        (
            {"module_list.0.a": 1, "ema.module_list.0.a": 2},
            "must hold one network, found the names module_list.* and ema.module_list",
        ),
    ],
)
def test_checkpoints_of_another_kind(torch, leaky, tmp_path, content, message):
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(InputError, match=message) as caught:
        read_weights(leaky.config, tmp_path / "other.pth")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_network_names_the_layer(torch, build, leaky, tmp_path):
    state = build(leaky).state_dict()
    state["module_list.5.conv_5.weight"] = torch.zeros(16, 12, 1, 1)
    torch.save(state, tmp_path / "other.pth")
    message = (
        r"layer 5 \(\[convolutional\], line 43\) needs 'module_list.5.conv_5.weight' of shape "
        r"\[16, 16, 1, 1\], found \[16, 12, 1, 1\]"
    )
    with pytest.raises(InputError, match=message):
        read_weights(leaky.config, tmp_path / "other.pth")


@pytest.mark.parametrize("keep", [3, 5, 1000, -1])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_that_was_cut_off(torch, build, leaky, tmp_path, keep, zipped):
    path = tmp_path / "yoeo.pth"
    torch.save(build(leaky).state_dict(), path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="downloaded whole") as caught:
        read_weights(leaky.config, path)
    assert "\n" not in str(caught.value)


def test_without_pytorch_one_line_says_what_to_install(leaky, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "tvm_vision.exporters.yoeo.network", raising=False)
    (tmp_path / "yoeo.pth").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"not installed: pip install 'tvm_vision\[export\]', or"):
        read_weights(leaky.config, tmp_path / "yoeo.pth")
    with pytest.raises(InputError, match=r"not installed: pip install 'tvm_vision\[export\]'"):
        importlib.import_module("tvm_vision.exporters.yoeo.network")
    assert weights_module.read_weights(leaky.config, leaky.weights)
