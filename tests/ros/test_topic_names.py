"""Names of topics that ROS refuses are refused as parameters, at the start and live."""

import itertools

import pytest

from support.ros import fakes
from tvm_vision.errors import InputError
from tvm_vision_ros.settings import TOPICS, problem_in

# Of the namespace and the name in the fixture below: with them a topic of 243 letters has 247.
NAMESPACE, LONGEST = "/ns", 243
REFUSED = (
    "",
    "/",
    "~/",
    "a/",
    "//a",
    "a//b",
    "1a",
    "a/1b",
    "a b",
    "a-b",
    "a.b",
    "a\n",
    "a\0b",
    "ä",
    "a~",
    "/~/a",
    "a/~/b",
    "a{",
    "}",
    "{}/a",
    "{robot}/a",
    "{1}/a",
    "a" * (LONGEST + 1),
    "a" * 300,
    "a" * 100_000,
    "/" + "a" * 247,
    "{node}/" + "a" * 240,
    "a/" * 150 + "a",
)
TAKEN = ("a", "_a", "/a", "~/a", "a__b/_c", "{node}/a", "{ns}/a", "a{node}", "a" * LONGEST)


@pytest.fixture(scope="module")
def make(graph):
    """Makes a node in this process, of parameters."""
    from rclpy.parameter import Parameter

    from tvm_vision_ros.node import VisionNode

    made = []

    def node(**given):
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        # Not in the executor, which an error would end; it does not know of the node.
        made.append(
            VisionNode(
                fakes.load,
                context=graph.context,
                namespace=NAMESPACE,
                parameter_overrides=overrides,
            )
        )
        return made[-1]

    yield node
    for each in made:
        graph.in_executor(each.destroy_node)


@pytest.fixture(scope="module")
def unconfigured(make):
    return make()


@pytest.fixture(scope="module")
def active(graph, make, models):
    node = make(model=models("fake"), lazy=False)
    graph.in_executor(node.start)
    return node


@pytest.fixture(params=["unconfigured", "active"])
def change(request, graph):
    """Sets parameters at once; returns why not, or ""."""
    from rclpy.parameter import Parameter

    node = request.getfixturevalue(request.param)
    before = node.settings

    def run(**values):
        parameters = [Parameter(name, value=value) for name, value in values.items()]
        return graph.in_executor(node.set_parameters_atomically, parameters).reason

    yield run
    assert run(**{name: getattr(before, name) for name in (*TOPICS, "image_transport")}) == ""
    assert node.settings == before


def test_each_parameter_refuses_each_such_name_live(change):
    for name, topic in itertools.product(TOPICS, REFUSED):
        reason = change(**{name: topic})
        assert reason.startswith(f"{name} must be the name of a topic"), (name, topic[:40], reason)
        assert "\n" not in reason and "/src/" not in reason
        assert len(reason) < 400, (name, topic[:40])


def test_each_parameter_takes_each_other_name(change):
    for name, topic in itertools.product(TOPICS, TAKEN):
        assert change(**{name: topic}) == "", (name, topic[:40])


def test_what_the_transport_puts_behind_it_counts(change):
    long = "a" * (LONGEST - 5)
    assert change(image_topic=long, depth_topic=long) == ""
    for transport in ({"image_transport": "compressed"}, {"depth_transport": "compressedDepth"}):
        assert "must be the name of a topic: ROS takes no topic" in change(**transport)
    assert change(image_topic="image", image_transport="compressed") == ""
    assert "image_topic must be" in change(image_topic=long)
    assert change(image_topic=long, image_transport="raw") == ""


@pytest.mark.parametrize("topic", ["", "a b", "{robot}/a", "a" * 300])
@pytest.mark.parametrize("name", TOPICS)
def test_no_node_starts_with_one(make, name, topic):
    with pytest.raises(InputError, match=f"{name} must be the name of a topic"):
        make(**{name: topic})


def test_without_ros_no_name_is_refused_that_ros_takes(unconfigured):
    """settings.py looks first, where there is no ROS; ROS has the last word."""
    from tvm_vision_ros.ros_names import resolved

    tokens = ("", "a", "_", "1", "~", "/", "{node}", "{ns}", "{", "}", "ü", " ", "\n", "-")
    for parts in itertools.product(tokens, repeat=3):
        topic = "".join(parts)
        try:
            resolved(unconfigured, topic)
        except InputError:
            continue
        # A ~ alone or with letters behind it is the node's own name, and no topic of a camera.
        refused = problem_in({"image_topic": topic}) != ""
        assert refused == (topic[:1] == "~" and topic[1:2] != "/"), topic


def test_a_camera_that_is_none_is_refused_before_there_is_a_network(change):
    assert "camera must be a number" in change(camera="webcam")


def test_a_class_whose_name_makes_no_topic_is_refused_with_the_network(unconfigured):
    class Wordy(fakes.FakeModel):
        segmentation_names = ("background", "field" * 60)

    with pytest.raises(InputError, match="ROS takes no topic 'mask/field.* characters"):
        unconfigured.outputs.check(Wordy(), unconfigured.settings)


def test_replay_refuses_them_with_one_line(ros):
    from tvm_vision_ros.replay import ReplayCamera, publish

    for topic in ("a b", "a" * 300):
        with pytest.raises(InputError, match="ROS takes no topic"):
            publish([], ReplayCamera(topic))
