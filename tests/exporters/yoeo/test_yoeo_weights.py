"""Darknet's files and their damages; names of classes. Nothing here needs PyTorch."""

import numpy as np
import pytest

from support.reference_network import Numbers, run
from support.yoeo_cfgs import LEAKY
from tvm_vision.errors import InputError
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.darknet import write_darknet
from tvm_vision.exporters.yoeo.names import ClassGroup, ClassNames, read_groups, read_names
from tvm_vision.exporters.yoeo.parameters import all_parameters, check_state
from tvm_vision.exporters.yoeo.weights import read_weights


@pytest.fixture
def damaged(leaky, tmp_path):
    """Reads the weights with other content; returns the message."""

    def read(content, name="yoeo.weights"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_weights(leaky.config, tmp_path / name)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return read


def test_names_and_shapes_are_those_of_yoeo(leaky):
    parameters = {name: shape for _, name, shape in all_parameters(leaky.config)}
    assert parameters["module_list.0.conv_0.weight"] == (8, 3, 3, 3)
    assert parameters["module_list.3.conv_3.weight"] == (8, 8, 3, 3)
    assert parameters["module_list.13.conv_13.bias"] == (24,)
    assert parameters["module_list.13.conv_13.weight"] == (24, 48, 1, 1)
    assert parameters["module_list.7.batch_norm_7.running_var"] == (32,)
    assert parameters["module_list.9.yolo_9.anchors"] == (3, 2)
    assert parameters["module_list.9.yolo_9.anchor_grid"] == (1, 3, 1, 1, 2)


def test_what_is_written_is_what_was_read(case, tmp_path):
    state = read_weights(case.config, case.weights)
    write_darknet(case.config, state, tmp_path / "again.weights", seen=1 << 33)
    written = (tmp_path / "again.weights").read_bytes()
    assert written[20:] == case.weights.read_bytes()[20:]
    assert np.frombuffer(written, "<i4", 5).tolist() == [0, 2, 5, 0, 2]
    # And the reference, which reads files in its own way, finds the same boxes.
    expected = run(case.cfg.read_text(), case.image[0], Numbers(written))
    assert expected.boxes == case.expected.boxes


def test_a_file_that_ends_too_early_names_the_layer(leaky, damaged):
    content = leaky.weights.read_bytes()
    assert damaged(content[:1200]).startswith(
        "'yoeo.weights' ends inside layer 1 ([convolutional], line 18): "
        f"{len(content)} bytes are needed for the network of 'leaky.cfg', found 1200: was the file"
    )
    assert "inside layer 17" in damaged(content[:-1])
    assert "inside layer 0" in damaged(b"")


def test_a_file_that_is_too_long(leaky, damaged):
    content = leaky.weights.read_bytes()
    assert damaged(content + b"\0\0\0\0") == (
        f"'yoeo.weights' has {len(content) + 4} bytes, and the network of 'leaky.cfg' needs "
        f"{len(content)}: is it of another network?"
    )


def test_weights_that_are_no_numbers(leaky, damaged):
    content = bytearray(leaky.weights.read_bytes())
    content[20:24] = np.float32(np.nan).tobytes()
    assert damaged(bytes(content)) == (
        "layer 0 ([convolutional], line 10) needs finite weights, and "
        "'module_list.0.batch_norm_0.bias' has NaN or infinity: the training diverged, or the file "
        "is damaged"
    )


def test_a_file_that_only_ends_like_a_checkpoint(damaged):
    assert "a PyTorch checkpoint or Darknet's .weights is needed, and" in damaged(
        b"<html>", "a.pth"
    )


def test_a_missing_file(leaky, tmp_path):
    with pytest.raises(InputError, match="'.*none.weights' is not there"):
        read_weights(leaky.config, tmp_path / "none.weights")


def test_arrays_of_another_network_are_refused(leaky):
    state = read_weights(leaky.config, leaky.weights)
    wider = parse_config(LEAKY.replace("filters=8", "filters=12"))
    with pytest.raises(
        InputError, match=r"layer 0 .*batch_norm_0.bias' of shape \[12\], found \[8"
    ):
        check_state(wider, state)
    del state["module_list.1.conv_1.weight"]
    with pytest.raises(
        InputError, match=r"layer 1 .*line 18\) needs .*conv_1.weight' of shape \[16"
    ):
        check_state(leaky.config, state)
    state["module_list.1.conv_1.weight"] = np.zeros((16, 8, 3, 3), np.float32)
    state["module_list.99.conv_99.weight"] = np.zeros((1, 2), np.float32)
    with pytest.raises(InputError, match=r"no place for 'module_list.99.conv_99.weight' of .*1, 2"):
        check_state(leaky.config, state)


@pytest.fixture
def yaml_file(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML is not installed")

    def write(text):
        (tmp_path / "file.yaml").write_text(text)
        return tmp_path / "file.yaml"

    return write


def test_names_are_read(yaml_file):
    text = "detection:\n  - ball\n  - goalpost\nsegmentation: [background, lines]\n"
    assert read_names(yaml_file(text)) == ClassNames(("ball", "goalpost"), ("background", "lines"))
    assert read_names(yaml_file("segmentation: [field]\n")) == ClassNames((), ("field",))


def test_groups_are_read(yaml_file):
    group = "group_classes: [red, blue]\nsurrogate_class: robot\n"
    robot = ClassGroup("robot", ("red", "blue"))
    assert read_groups(yaml_file(group)) == (robot,)
    assert read_groups(yaml_file("group_classes:\nsurrogate_class: ''\n")) == ()
    two = "- {group_classes: [red, blue], surrogate_class: robot}\n- {group_classes: [a], "
    assert read_groups(yaml_file(two + "surrogate_class: b}\n")) == (robot, ClassGroup("b", ("a",)))


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_names, "a: [", "must be YAML in line [12]: .*"),
        (read_names, "- ball", r"must have the keys detection and segmentation, found \['ball'\]"),
        (read_names, "names: [ball]", "keys detection and segmentation, found names"),
        (
            read_names,
            "detection: [ball, no]",
            "names is needed under 'detection', found False: put",
        ),
        (
            read_names,
            "detection: [ball, 3]",
            "found 3: put names that YAML reads as something else",
        ),
        (read_names, "detection: [ball, ball]", "'detection' has the name 'ball' twice"),
        (read_groups, "group_classes: [a]", "'surrogate_class' must be a name, found None"),
    ],
)
def test_yaml_of_another_form_is_refused(yaml_file, read, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read(yaml_file(text))
    assert "\n" not in str(caught.value)


def test_a_yaml_file_that_is_not_there(yaml_file, tmp_path):
    with pytest.raises(InputError, match="is not there"):
        read_names(tmp_path / "none.yaml")
