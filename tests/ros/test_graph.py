"""One node and one camera over real DDS: what comes in goes out."""

import numpy as np
import pytest

pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def node(graph):
    from graph import Process

    process = Process("model:=fake:2", "diagnostics_period:=0.2")
    graph.wait_for_state("active")
    yield process
    assert process.end() == 0, process.log
    process.kill()


def ball_at(x, y, size=20, shape=(480, 640)):
    pixels = np.zeros((*shape, 3), np.uint8)
    pixels[y : y + size, x : x + size] = 255
    return pixels


def test_detections_have_the_header_and_the_box_of_their_image(graph, node):
    from vision_msgs.msg import Detection2DArray

    with graph.camera() as camera, graph.listen(Detection2DArray, "detections") as inbox:
        graph.wait_for_subscriber(camera)
        sent = graph.image(ball_at(100, 200))
        camera.publish(sent)
        message = inbox.next()
        assert message.header == sent.header
        (ball,) = message.detections
        assert ball.header == sent.header
        assert ball.results[0].hypothesis.class_id == "ball"
        assert ball.results[0].hypothesis.score == pytest.approx(0.9)
        assert (ball.bbox.center.position.x, ball.bbox.center.position.y) == (110.0, 210.0)
        assert (ball.bbox.size_x, ball.bbox.size_y) == (20.0, 20.0)
