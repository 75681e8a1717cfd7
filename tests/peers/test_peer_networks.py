"""The networks that engines are compared on, in the forms that engines take."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.peers.engine import Unusable, output_error
from benchmarks.peers.half import to_fp16
from benchmarks.peers.networks import NETWORKS
from benchmarks.peers.work import Work, floor_ms, graph_work, model_work

SMALL = 64
# Twice the multiply-adds and the weights, in millions, as published for these networks (YOEO: by
# its cfg; here without batch norms, and SqueezeNet's first convolution is padded).
PUBLISHED = {
    "squeezenet1_1": (775, 1.235),
    "shufflenet_v2": (290, 2.27),
    "mobilenet_v2": (601, 3.49),
    "efficientnet_lite0": (770, 4.63),
    "resnet18": (3628, 11.68),
    "resnet50": (8178, 25.53),
    "yoeo": (21973, 6.97),
}


def run(model: onnx.ModelProto, image: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"input": image})


def image(size: int) -> np.ndarray:
    return np.random.default_rng(3).random((1, 3, size, size), "float32")


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_have_the_published_size(name: str) -> None:
    operations, weights = PUBLISHED[name]
    model = NETWORKS[name].model()
    assert model_work(model).operations / 1e6 == pytest.approx(operations, rel=1e-3)
    ours = sum(np.prod(w.dims) for w in model.graph.initializer)
    assert ours / 1e6 == pytest.approx(weights, rel=2e-3)


def test_yoeo_gives_boxes_in_the_image_and_a_mixed_mask() -> None:
    detections, mask = run(NETWORKS["yoeo"].build(SMALL), image(SMALL))
    assert detections.shape == (1, 3 * (2 * 2 + 4 * 4), 8)
    centres, scores = detections[..., :2], detections[..., 4:]
    assert centres.min() >= 0 and centres.max() <= SMALL
    assert scores.min() > 0 and scores.max() < 1
    assert mask.shape == (1, SMALL, SMALL) and mask.dtype == np.uint8
    assert len(np.unique(mask)) > 1


@pytest.mark.parametrize("name", ["squeezenet1_1", "shufflenet_v2", "yoeo"])
def test_half_models_store_halves_and_keep_their_signature(name: str) -> None:
    model = NETWORKS[name].build(SMALL)
    half = to_fp16(model)
    onnx.checker.check_model(half, full_check=True)
    kinds = [w.data_type for w in half.graph.initializer if len(w.dims) == 4]
    assert set(kinds) == {onnx.TensorProto.FLOAT16}
    wanted = run(model, image(SMALL))
    found = run(half, image(SMALL))
    assert [a.dtype for a in found] == [a.dtype for a in wanted]
    assert 0 < output_error(found, wanted) < 2e-2


@pytest.mark.parametrize("name", ["squeezenet1_1", "shufflenet_v2", "mobilenet_v2", "yoeo"])
def test_pytorch_computes_the_same_network(name: str) -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.peers.engine_torch import to_layout
    from benchmarks.peers.torch_network import TorchNetwork

    model = NETWORKS[name].build(SMALL)
    wanted = run(model, image(SMALL))
    for layout in (torch.contiguous_format, torch.channels_last):
        network = to_layout(TorchNetwork(model).eval(), layout)
        with torch.no_grad():
            found = network(torch.from_numpy(image(SMALL)).contiguous(memory_format=layout))
        assert output_error([value.numpy() for value in found], wanted) < 1e-5


def test_pytorch_has_no_form_of_a_camera() -> None:
    pytest.importorskip("torch")
    from benchmarks.peers.torch_network import TorchNetwork

    with pytest.raises(Unusable, match="Slice with steps"):
        TorchNetwork(NETWORKS["demo_camera"].model())


def test_output_error_is_relative_and_sees_whole_numbers_nan_and_shapes() -> None:
    floats, whole = np.array([1, -4], np.float32), np.array([1, 2, 3, 4], np.uint8)
    assert output_error([floats * 1.5, whole], [floats, whole]) == 0.5
    assert output_error([floats, whole + np.array([0, 0, 0, 1], np.uint8)], [floats, whole]) == 0.25
    with pytest.raises(Unusable, match="NaN"):
        output_error([floats * np.nan], [floats])
    with pytest.raises(Unusable, match="elements"):
        output_error([floats[:1]], [floats])


def test_chain_counts_what_must_wait() -> None:
    tensors = [{"storage": i} for i in range(5)]

    def kernel(*args: int) -> dict:
        return {"args": list(args), "num_outputs": 1}

    # 1 and 2 both read 0, 3 joins them.
    graph = {"tensors": tensors, "kernels": [kernel(0, 1), kernel(0, 2), kernel(1, 2, 3)]}
    assert graph_work(graph) == {"kernels": 3, "chain": 2}


def test_floor_is_the_slower_of_bytes_and_operations_plus_launches() -> None:
    ceilings = {"copy_gb_s": 1000, "fp32_tflops": 10, "matrix_tflops": 100, "launch_us": 2}
    work = Work(operations=10**10, bytes=10**8)
    assert floor_ms(work, 5, ceilings, "fp32") == pytest.approx(1.0 + 0.01)
    assert floor_ms(work, 5, ceilings, "fp16") == pytest.approx(0.1 + 0.01)
