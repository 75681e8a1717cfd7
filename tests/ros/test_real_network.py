"""The executable itself with networks of packages: compiled, broken, of others, without a GPU."""

import shutil

import numpy as np
import pytest

from support import SUPPORT, handmade, packages, yoeo_networks
from support.ros import SURE
from tvm_vision import vulkan
from tvm_vision.api import compile as compile_network
from tvm_vision.devices import DeviceDescription
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models import load_model
from tvm_vision.models.results import Detections

PROGRAM = SUPPORT / "ros" / "vision_node_program.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def package(folder):
    """A tiny YOEO network for this machine's CPU."""
    return compiled(folder, "llvm")


def compiled(folder, target, name="yoeo"):
    network = yoeo_networks.write_tiny(folder / f"{name}.onnx")
    info = yoeo_model_info(network)
    return compile_network(network, folder / f"{name}.tar", target=target, model_info=info)


def boxes_of(message):
    return np.array(
        [
            (
                item.bbox.center.position.x - item.bbox.size_x / 2,
                item.bbox.center.position.y - item.bbox.size_y / 2,
                item.bbox.center.position.x + item.bbox.size_x / 2,
                item.bbox.center.position.y + item.bbox.size_y / 2,
            )
            for item in message.detections
        ]
    )


def test_the_node_publishes_what_the_library_finds(graph, start, package):
    from sensor_msgs.msg import Image
    from vision_msgs.msg import Detection2DArray

    shown = yoeo_networks.random_image()
    expected = load_model(package, confidence=0.3)(shown)
    assert isinstance(expected.detections, Detections) and len(expected.detections)
    start(f"model:={package}", "confidence:=0.3", SURE, program=PROGRAM)
    graph.wait_for_state("active")
    with (
        graph.listen(Detection2DArray, "detections") as detections,
        graph.listen(Image, "segmentation") as masks,
        graph.camera() as camera,
    ):
        graph.wait_for_subscriber(camera)
        camera.publish(graph.image(shown))
        found, mask = detections.next(), masks.next()
    names = [item.results[0].hypothesis.class_id for item in found.detections]
    assert names == [name for name, _, _ in expected.detections]
    np.testing.assert_allclose(boxes_of(found), expected.detections.boxes, atol=1e-3)
    pixels = np.frombuffer(mask.data, np.uint8).reshape(mask.height, mask.width)
    np.testing.assert_array_equal(pixels, expected.segmentation.mask)


def test_a_robots_folder_gives_its_names(graph, start, package, tmp_path):
    from vision_msgs.msg import LabelInfo

    shutil.copy(package, tmp_path / "yoeo.tar")
    names = "detection: {classes: [x, y, z]}\nsegmentation: {classes: [none, line, grass]}\n"
    (tmp_path / "model_config.yaml").write_text(names)
    start(f"model:={tmp_path}", program=PROGRAM)
    graph.wait_for_state("active")
    with graph.listen(LabelInfo, "label_info", latched=True) as inbox:
        assert [item.class_name for item in inbox.next().class_map] == ["none", "line", "grass"]


def test_a_package_for_another_device_is_told_once(graph, start, folder, monkeypatch):
    from support.ros.graph import lines_of

    found = vulkan.devices()
    if not found:
        pytest.skip("there is no Vulkan device here")
    other = DeviceDescription.of(found[0]).target_config()
    other |= {"device_name": "Twin", "max_threads_per_block": 128}
    package = compiled(folder, other, "twin")
    monkeypatch.setenv("TVM_VISION_VULKAN_VALIDATION", "0")
    node = start(f"model:={package}", "diagnostics_period:=0.1", program=PROGRAM)
    graph.wait_for_state("active")
    with graph.diagnostics() as inbox:
        level, words, values = lines_of(inbox.next())["network"]
    told = [line for line in node.lines if "made for Twin, and this is" in line]
    assert len(told) == 1 and "[WARN]" in told[0] and "compile it with --target vulkan" in told[0]
    assert level == 1 and values["note"].startswith("made for Twin, and this is")
    on_cpu = values["device type"] == "cpu"
    assert words.startswith("twin runs on a CPU" if on_cpu else "twin: made for Twin")


def damaged(package, path):
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def foreign(package, path):
    packages.write_sample(path)


def of_no_images(package, path):
    handmade.write_package_file(path)


def no_package(package, path):
    path.write_text("text")


def empty(package, path):
    path.touch()


def shortened(package, path):
    data = package.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def test_a_file_that_cannot_be_loaded_is_the_answer_of_load_model(graph, start, package, tmp_path):
    """The sequence of docs/reference/node.md, while the network is loaded and after a refusal."""
    from std_srvs.srv import Trigger

    def load_model():
        answer = graph.call(Trigger, "/vision/load_model", Trigger.Request())
        return answer.success, answer.message

    process = start(f"model:={package}", program=PROGRAM)
    graph.wait_for_state("active")
    for make in (damaged, foreign, of_no_images, no_package, empty, shortened):
        path = tmp_path / f"{make.__name__}.tar"
        make(package, path)
        assert graph.set(model=str(path)) == ""
        first = load_model()
        assert not first[0], make.__name__
        graph.wait_until(lambda: graph.get("model") == str(package), "the old parameters")
        success, words = load_model()
        assert not success and words.endswith("set the parameter model anew to load one")
        assert graph.set(model=str(package)) == ""
        assert load_model()[0]
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (None, "does not exist: check model"),
        (damaged, "was changed or damaged"),
        (foreign, "cannot be loaded"),
        (of_no_images, "is needed"),
        (no_package, "broken.tar"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(graph, start, package, tmp_path, make, words):
    from support.ros.graph import lines_of

    path = tmp_path / "broken.tar"
    if make is not None:
        make(package, path)
    process = start(f"model:={path}", "diagnostics_period:=0.2", program=PROGRAM)
    process.wait_for(words)
    assert graph.state() == "unconfigured"
    with graph.diagnostics() as inbox:
        level, message, _ = lines_of(inbox.next())["network"]
    assert level == 2 and words in message
    assert "Traceback" not in process.log


def test_no_gpu(graph, start, folder, monkeypatch):
    path = compiled(folder, "vulkan", "vulkan")
    # A Vulkan loader that finds no driver.
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    process = start(f"model:={path}", program=PROGRAM)
    process.wait_for("the package was compiled for vulkan, but")
    assert graph.state() == "unconfigured"
    assert "Traceback" not in process.log
