"""Images for the network of fakes.py, and sending them until one arrives."""

import contextlib
import time

import numpy as np


def scene(x=100, y=200, size=20, shape=(480, 640)):
    """A bright square on black, which the network of fakes.py takes for a ball."""
    pixels = np.zeros((*shape, 3), np.uint8)
    pixels[y : y + size, x : x + size] = 255
    return pixels


def send_until(graph, camera, inbox, make, accept=lambda message: True):
    """Publish images until the result of one of them is accepted; best effort may lose some.

    A node that several tests share may still be at work on another's last image: what has a header
    is of one of these. Latencies have none.
    """

    def is_of_these(message):
        return not hasattr(message, "header") or message.header.stamp in sent

    graph.wait_until(lambda: camera.get_subscription_count() > 0, "a subscriber")
    sent = []
    end = time.monotonic() + 20
    while time.monotonic() < end:
        image = make()
        sent.append(image.header.stamp)
        camera.publish(image)
        with contextlib.suppress(Exception):
            return inbox.until(lambda m: is_of_these(m) and accept(m), timeout=0.3)
    raise AssertionError("no such result came")
