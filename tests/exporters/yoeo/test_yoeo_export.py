"""ONNX files of YOEO networks: in onnxruntime and in packages, against the reference."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

import tvm_vision
from tvm_vision.errors import InputError
from tvm_vision.evaluate import Reference
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.export import METADATA_KEY, ExportOptions, onnx_model
from tvm_vision.exporters.yoeo.names import ClassGroup, ClassNames
from tvm_vision.exporters.yoeo.weights import read_weights


def exported(case, **options):
    return onnx_model(
        case.config, read_weights(case.config, case.weights), ExportOptions(**options)
    )


def metadata(model):
    return json.loads({entry.key: entry.value for entry in model.metadata_props}[METADATA_KEY])


def signature(values):
    return [
        (
            value.name,
            value.type.tensor_type.elem_type,
            tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim),
        )
        for value in values
    ]


@pytest.mark.parametrize("raw_heads", [False, True])
@pytest.mark.parametrize("opset", [11, 12, 13, 17, 18, 21])
def test_onnxruntime_gives_what_the_reference_gives(case, opset, raw_heads):
    model = exported(case, opset=opset, raw_heads=raw_heads)
    assert [entry.version for entry in model.opset_import] == [opset]
    case.check(Reference(model).run({"InputLayer": case.image}))


def run_package(model, target, image, folder):
    """Outputs by name of a package that was made of the model."""
    onnx.save(model, folder / "yoeo.onnx")
    tvm_vision.compile(folder / "yoeo.onnx", folder / "yoeo.tar", target=target)
    network = tvm_vision.load(folder / "yoeo.tar")
    network.run(InputLayer=image)
    return network.outputs()


# On Vulkan by default: the next test.
@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
def test_packages_give_what_the_reference_gives(case, target, tmp_path, device_info):
    found = run_package(exported(case), target, case.image, tmp_path)
    case.check(found, tolerance=1e-3)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_a_package_with_raw_heads(leaky, target, tmp_path, device_info):
    found = run_package(exported(leaky, raw_heads=True), target, leaky.image, tmp_path)
    leaky.check(found, tolerance=1e-3)


def test_inputs_outputs_and_types(leaky):
    model = exported(leaky)
    assert signature(model.graph.input) == [("InputLayer", onnx.TensorProto.FLOAT, (1, 3, 64, 96))]
    boxes = 3 * (4 * 6 + 8 * 12)
    assert signature(model.graph.output) == [
        ("Detections", onnx.TensorProto.FLOAT, (1, boxes, 8)),
        ("Segmentations", onnx.TensorProto.UINT8, (1, 64, 96)),
    ]
    raw = exported(leaky, raw_heads=True)
    assert signature(raw.graph.output) == [
        ("Head0", onnx.TensorProto.FLOAT, (1, 24, 4, 6)),
        ("Head1", onnx.TensorProto.FLOAT, (1, 24, 8, 12)),
        ("Segmentations", onnx.TensorProto.UINT8, (1, 64, 96)),
    ]
    assert not {"Sigmoid", "Exp"} & {node.op_type for node in raw.graph.node}


def test_the_metadata_tell_what_the_outputs_mean(leaky):
    names = ClassNames(("ball", "robot_red", "robot_blue"), ("background", "lines", "field"))
    group = ClassGroup("robot", ("robot_red", "robot_blue"))
    assert metadata(exported(leaky, names=names, groups=[group], raw_heads=True)) == {
        "input_size": [64, 96],
        "detection": ["ball", "robot_red", "robot_blue"],
        "segmentation": ["background", "lines", "field"],
        "groups": [{"surrogate": "robot", "classes": ["robot_red", "robot_blue"]}],
        "raw_heads": True,
        "heads": [
            {"stride": 16, "anchors": [[20, 22], [35, 18], [40, 55]]},
            {"stride": 8, "anchors": [[4, 6], [9, 12], [7, 30]]},
        ],
    }
    plain = metadata(exported(leaky))
    assert plain["detection"] == plain["segmentation"] == ["class0", "class1", "class2"]
    assert (plain["groups"], plain["raw_heads"]) == ([], False)


def test_another_size_is_that_of_the_image(leaky):
    """The same network, told its size by the configuration or by the option."""
    text = leaky.cfg.read_text().replace("width=96", "width=32").replace("height=64", "height=80")
    other = replace(leaky, config=parse_config(text))
    image = np.random.default_rng(0).random((1, 3, 80, 32), np.float32)
    model = exported(leaky, size=(80, 32))
    assert metadata(model)["input_size"] == [80, 32]
    found = Reference(model).run({"InputLayer": image})
    for name, array in Reference(exported(other)).run({"InputLayer": image}).items():
        np.testing.assert_array_equal(found[name], array)


def test_half_storage_halves_the_file_and_little_else(leaky):
    full, half = exported(leaky), exported(leaky, fp16_storage=True)
    kernels = [entry for entry in half.graph.initializer if entry.name.startswith("kernel")]
    assert {entry.data_type for entry in kernels} == {onnx.TensorProto.FLOAT16}
    assert half.ByteSize() < 0.8 * full.ByteSize()
    found = Reference(half).run({"InputLayer": leaky.image})["Detections"][0]
    np.testing.assert_allclose(found, leaky.expected.boxes, rtol=3e-2, atol=3e-2)


def test_weights_that_halves_cannot_hold_are_refused(leaky):
    state = read_weights(leaky.config, leaky.weights)
    state["module_list.8.conv_8.bias"] = np.full(24, 1e5, np.float32)
    with pytest.raises(InputError, match=r"float16, and 'bias_8' has 100000: store them as float"):
        onnx_model(leaky.config, state, ExportOptions(fp16_storage=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset": 10}, "an opset from 11 to 21 is needed, found 10"),
        ({"size": (64, 100)}, r"layer 9 \(\[yolo\].*divides the image's 64x100.*multiples of 16"),
        (
            {"names": ClassNames(("ball",), ("a", "b", "c"))},
            r"3 names are needed under 'detection', .* found 1 \(ball\)",
        ),
        (
            {"names": ClassNames(("a", "b", "c"), ())},
            r"3 names are needed under 'segmentation', .* found 0 \(none\)",
        ),
        (
            {"groups": [ClassGroup("robot", ("red",))]},
            "group 'robot' needs classes of the network, which are class0, class1, class2, found",
        ),
        (
            {"groups": [ClassGroup("a", ("class0",)), ClassGroup("b", ("class0",))]},
            "'class0' must be in one group, found it in 'a' and 'b'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(leaky, options, message):
    with pytest.raises(InputError, match=message):
        exported(leaky, **options)
