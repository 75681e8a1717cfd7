"""What services, parameters and /diagnostics answer after something failed: never a success."""

import os

import numpy as np
import pytest

from support.ros.scenes import scene, send_until


@pytest.fixture(scope="module")
def process(graph, models):
    from support.ros.graph import Process

    with Process(f"model:={models('fake')}", "diagnostics_period:=0.1") as made:
        graph.wait_for_state("active")
        yield made


@pytest.fixture
def node(graph, process, models):
    """The process with its first network and parameters, which each test finds."""
    yield process
    assert process.popen.poll() is None, process.log
    assert graph.set_at_once(model=models("fake"), top=5, device="auto") == ""
    if graph.state() == "inactive":
        assert graph.change("activate")
    graph.wait_for_state("active")
    assert load_model(graph)[0]


def load_model(graph):
    from std_srvs.srv import Trigger

    answer = graph.call(Trigger, "/vision/load_model", Trigger.Request())
    return answer.success, answer.message


def network_line(graph, accept=lambda line: True):
    from support.ros.graph import lines_of

    with graph.diagnostics() as inbox:
        return lines_of(inbox.until(lambda m: accept(lines_of(m)["network"])))["network"]


def loads(process):
    return [line for line in process.lines if line.startswith("loading ")]


@pytest.mark.parametrize("name", ["broken", "odd"])
@pytest.mark.parametrize(
    "more", [{}, {"top": 3}, {"top": 3, "device": "cpu"}], ids=lambda more: "-".join(more)
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_refused_network_is_told_and_nothing_is_loaded_instead(
    graph, node, models, name, more, at_once
):
    values = {"model": models(name), **more}
    before = len(loads(node))
    assert (graph.set_at_once if at_once else graph.set)(**values) == ""
    node.wait_for("fake stays in use")
    graph.wait_until(lambda: graph.get("model") == models("fake"), "the old parameters")
    assert (graph.get("top"), graph.get("device")) == (5, "auto")
    for _ in range(3):
        success, words = load_model(graph)
        assert not success
        assert words.startswith("fake stays in use, for the new network failed: ")
    level, words, values = network_line(graph)
    assert level == 1 and words.startswith("still fake, for the new network failed: ")
    # Neither the old network nor one that was never asked for.
    found = loads(node)[before:]
    # Of what was loaded before, a line may have been read late.
    assert set(found[found.index(f"loading {name}") :]) == {f"loading {name}"}
    # Asked for the old one, it is what it was: loaded anew, and nothing is wrong.
    assert graph.set(model=models("fake")) == ""
    assert load_model(graph) == (True, "fake on a processor of the tests (cpu)")
    assert "last failure" not in network_line(graph)[2]


def test_the_documents_sequence_with_a_good_network(graph, node, models):
    assert graph.set(model=models("good")) == ""
    assert load_model(graph) == (True, "good on a processor of the tests (cpu)")
    assert graph.get("model") == models("good")


def test_the_old_package_is_gone_and_the_new_one_is_refused(graph, node, models, tmp_path):
    path = tmp_path / "fake"
    path.touch()
    assert graph.set(model=str(path)) == ""
    assert load_model(graph)[0]
    path.unlink()
    assert graph.set(model=models("broken")) == ""
    graph.wait_until(lambda: graph.get("model") == str(path), "the parameter to say what runs")
    assert not load_model(graph)[0]


def test_a_network_whose_file_was_damaged_is_told_each_time(graph, node, models, tmp_path):
    path = tmp_path / "changing"
    path.write_text("good")
    assert graph.set(model=str(path)) == ""
    assert load_model(graph)[0]
    path.write_text("broken")
    for _ in range(2):
        success, words = load_model(graph)
        assert not success and "SHA-256" in words
    assert network_line(graph)[1].startswith("still good")
    path.write_text("good")
    assert load_model(graph)[0]
    assert "last failure" not in network_line(graph)[2]


def test_not_configured_says_why(graph, node, models):
    assert graph.change("deactivate") and graph.change("cleanup")
    assert load_model(graph)[1].startswith("the node is not configured: configure it")
    assert graph.set(model=models("broken")) == ""
    assert not graph.change("configure")
    success, words = load_model(graph)
    assert not success and words.startswith("the node is not configured (mod.so must have")
    level, words, _ = network_line(graph)
    assert level == 2 and words.startswith("mod.so must have")


def test_enable_says_that_it_is_not_enough(graph, node):
    from std_srvs.srv import SetBool

    assert graph.change("deactivate")
    answer = graph.call(SetBool, "/vision/enable", SetBool.Request(data=True))
    assert (answer.success, answer.message) == (
        True,
        "enabled; the node is inactive: it runs once it is active",
    )


def test_several_parameters_after_a_failure_start_it_once(graph, start, models):
    process = start(f"model:={models('broken')}", ros=("-r", "__ns:=/second"))
    process.wait_for("mod.so must have the SHA-256")
    values = {"model": models("good"), "device": "cpu", "top": 3}
    assert graph.set("/second/vision", **values) == ""
    graph.wait_for_state("active", "/second/vision")
    assert process.log.count("loading good") == 1
    assert "ERROR" not in process.log.split("loading good")[1]


def test_the_same_path_again_after_the_file_was_mended(graph, start, tmp_path):
    path = tmp_path / "changing"
    path.write_text("broken")
    process = start(f"model:={path}", ros=("-r", "__ns:=/third"))
    process.wait_for("mod.so must have the SHA-256")
    path.write_text("good")
    assert graph.set("/third/vision", model=str(path)) == ""
    graph.wait_for_state("active", "/third/vision")


@pytest.mark.parametrize(
    "model",
    ["/nonexistent", "x" * 5000, "a\0b", "~nobody_of_this_name/x", "/proc/1/root/x"],
    ids=["none", "long", "zero", "home", "forbidden"],
)
def test_paths_that_cannot_be_are_refused_and_the_node_lives(graph, node, models, model):
    reason = graph.set(model=model)
    assert "a package is needed" in reason
    assert graph.get("model") == models("fake")
    assert graph.state() == "active"


def test_topics_that_ros_refuses_are_refused_and_the_node_lives(graph, node):
    from rclpy.exceptions import InvalidTopicNameException
    from rclpy.validate_topic_name import validate_topic_name

    names = ["a__b", "_a", "a_", "~/a__b", "x" * 300, "a/b", "/a", "~/a", "a/0", "a//b", "~a", "a/"]
    with graph.listen(__import__("std_msgs.msg").msg.String, "unused"):
        for name in names:
            try:
                validate_topic_name(name)
            except InvalidTopicNameException:
                assert graph.set(image_topic=name) != "", name
            else:
                graph.set(image_topic=name)
            assert graph.state() == "active", name
    assert graph.set(image_topic="image") == ""


def test_a_package_that_is_missing_refuses_the_parameter(graph, start, monkeypatch, tmp_path):
    (tmp_path / "soccer_vision_2d_msgs").mkdir()
    (tmp_path / "soccer_vision_2d_msgs" / "__init__.py").write_text("raise ImportError('none')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    start("model:=fake", ros=("-r", "__ns:=/fourth"))
    graph.wait_for_state("active", "/fourth/vision")
    reason = graph.set("/fourth/vision", publish_soccer_vision=True)
    assert "the package soccer_vision_2d_msgs is not installed" in reason
    assert graph.get("publish_soccer_vision", "/fourth/vision") is False
    assert graph.state("/fourth/vision") == "active"


def test_a_network_of_another_kind_brings_its_topics(graph, node, models):
    """Instances and depth, and debug images; the topics of the first network go."""
    from sensor_msgs.msg import Image

    assert graph.set(model=models("seer")) == ""
    assert load_model(graph)[0]
    image = scene(x=10, y=20, size=8, shape=(48, 64))
    with (
        graph.camera() as camera,
        graph.listen(Image, "instances") as instances,
        graph.listen(Image, "depth") as depth,
        graph.listen(Image, "debug_image") as debug,
    ):
        ids = send_until(graph, camera, instances, lambda: graph.image(image))
        assert (ids.encoding, ids.step) == ("16UC1", 128)
        found = np.frombuffer(ids.data, np.uint16).reshape(48, 64)
        assert found[20:28, 10:18].min() == 1 and found.sum() == 64
        metres = send_until(graph, camera, depth, lambda: graph.image(image))
        assert (metres.encoding, metres.step) == ("32FC1", 256)
        values = np.frombuffer(metres.data, np.float32).reshape(48, 64)
        assert np.array_equal(values[7], np.arange(64))
        drawn = send_until(graph, camera, debug, lambda: graph.image(image))
        assert (drawn.height, drawn.width, drawn.encoding) == (48, 64, "bgr8")
    topics = {name for name, _ in graph.node.get_topic_names_and_types()}
    assert "/instances" in topics and "/segmentation" not in topics
