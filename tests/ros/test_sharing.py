"""Several cameras and one network: one load, turns in order, each camera's own thresholds."""

import gc
import threading

import numpy as np
import pytest

from support.ros import fakes
from tvm_vision.errors import InputError
from tvm_vision_ros.main import cameras_in
from tvm_vision_ros.model_loader import ModelRequest
from tvm_vision_ros.sharing import SharedNetworks, Turns


def test_turns_are_in_the_order_in_which_they_were_asked_for():
    turns, order, waits, threads = Turns(), [], [], []
    inside = threading.Event()

    def use(name):
        inside.set()
        with turns.take(name) as turn:
            order.append((name, turn.again))
            waits.append(turn.waited)

    with turns.take("first") as first:
        assert first.waited == 0.0
        for name in ("a", "b", "b", "c", "a"):
            inside.clear()
            threads.append(threading.Thread(target=use, args=(name,)))
            threads[-1].start()
            assert inside.wait(10)
            while len(turns._waiting) <= len(threads):
                pass
    for thread in threads:
        thread.join(10)
    assert order == [("a", False), ("b", False), ("b", True), ("c", False), ("a", False)]
    assert min(waits) > 0.0


def test_a_turn_ends_with_an_error_too():
    turns = Turns()
    with pytest.raises(KeyError), turns.take("a"):
        raise KeyError
    with turns.take("a") as turn:
        assert turn.again


def test_a_network_is_loaded_once_and_anew_for_who_asks_again():
    made = []

    def load(request):
        made.append(request)
        return fakes.FakeModel()

    shared, request = SharedNetworks(load), ModelRequest("m.tar")
    left, right, third = (shared.loader() for _ in range(3))
    first = left(request)
    assert right(request) is first
    # The device failed for both of them.
    second = right(request)
    assert second is not first and left(request) is second
    assert len(made) == 2
    assert left(ModelRequest("other.tar")) is not second
    # Nothing is kept that nobody uses.
    del first, second
    gc.collect()
    third(request)
    assert len(made) == 4


@pytest.mark.parametrize(
    ("arguments", "names", "others"),
    [
        (["p", "--ros-args", "-p", "a:=1"], [], ["p", "--ros-args", "-p", "a:=1"]),
        (["p", "--cameras", "left,right", "--ros-args"], ["left", "right"], ["p", "--ros-args"]),
    ],
)
def test_the_names_of_cameras(arguments, names, others):
    assert cameras_in(arguments) == (names, others)


@pytest.mark.parametrize("text", ["left,left", "", "left,", "a b", "/left", "1st"])
def test_what_are_no_names_of_cameras(text):
    with pytest.raises(InputError, match="must be different names"):
        cameras_in(["p", "--cameras", text])


def test_two_cameras_in_one_process(graph, start, models, tmp_path):
    """Each with its own results and thresholds, of a network that was loaded once."""
    from vision_msgs.msg import Detection2DArray

    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/**/vision:\n  ros__parameters: "
        f"{{model: '{models('fake:20')}', input_reliability: reliable}}\n"
        "/right/vision:\n  ros__parameters: {confidence: 0.95}\n"
    )
    command = ("--cameras", "left,right", "--ros-args", "--params-file", str(path))
    process = start(command=command)
    image = np.zeros((24, 32, 3), np.uint8)
    image[4:8, 4:8] = 255
    graph.wait_for_state("active", "/left/vision")
    graph.wait_for_state("active", "/right/vision")
    assert process.log.count("loading fake") == 1
    with (
        graph.listen(Detection2DArray, "/left/detections") as left,
        graph.listen(Detection2DArray, "/right/detections") as right,
        graph.camera("/left/image") as left_eye,
        graph.camera("/right/image") as right_eye,
    ):
        graph.wait_for_subscriber(left_eye)
        graph.wait_for_subscriber(right_eye)
        for _ in range(3):
            left_eye.publish(graph.image(image))
            right_eye.publish(graph.image(image))
            assert (len(left.next().detections), len(right.next().detections)) == (1, 0)
