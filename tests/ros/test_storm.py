"""All at once, in an order that chance has made: what a camera may send, parameters, services and
lifecycle, under a node that must go on, and be as it was after it."""

from __future__ import annotations

import os
import random
import threading
import time

import numpy as np
import pytest

from support.ros.scenes import scene, send_until

SECONDS = 12.0
LONG = pytest.param(300.0, marks=pytest.mark.slow)
ENCODINGS = ("bgr8", "rgb8", "mono8", "mono16", "bgra8", "16UC1", "32FC1", "yuv422", "", "tasty\n")
# Parameters and values that somebody may give them, right and wrong.
VALUES = {
    "confidence": (0.1, 0.5, 0.99, -1.0, float("nan"), float("inf"), "much", 1),
    "max_rate": (0.0, 5.0, 1000.0, -1.0, float("nan")),
    "max_frame_age": (0.0, 0.5, 60.0, 1e30),
    "max_image_pixels": (1, 10_000, 1 << 26, 0),
    "image_topic": ("image", "other", "image/compressed", "", "a b", "/"),
    "image_transport": ("raw", "compressed", "pigeon"),
    "input_reliability": ("reliable", "best_effort"),
    "input_depth": (1, 100, 0),
    "enabled": (True, False, "yes"),
    "lazy": (True, False),
    "tracking": (True, False),
    "publish_soccer_vision": (True, False),
    "own_team_color": ("", "red", "green"),
    "stall_timeout": (0.0, 0.1, 60.0),
    "rebuilds_per_minute": (0, 60, 61),
    "ball.confidence": (0.1, 0.9, 2.0),
    "nonsense": (1, "a"),
    "model": ("fake", "fake:5", "classifier", "seer", "broken", "odd", "/nowhere.tar", ""),
}
TRANSITIONS = ("configure", "activate", "deactivate", "cleanup")


class Storm:
    """What chance does to a node; its camera sends in a thread of its own."""

    def __init__(self, graph, models, seed):
        self.graph, self.models, self.chance = graph, models, random.Random(seed)
        self.over = threading.Event()

    def image(self, chance):
        """An image of any size and encoding, of which much may be wrong, and with any stamp."""
        height, width = chance.choice(((48, 64), (480, 640), (1, 1), (3, 2000), (7, 5)))
        message = self.graph.image(np.full((height, width, 3), chance.randrange(256), np.uint8))
        message.encoding = chance.choice(ENCODINGS) if chance.random() < 0.5 else "bgr8"
        for name, values in {
            "step": (0, 1, message.step + 8, 2**32 - 1),
            "height": (0, height + 1, 2**32 - 1),
            "width": (0, width + 1, 2**32 - 1),
            "data": (b"", bytes(7)),
            "is_bigendian": (1, 255),
        }.items():
            if chance.random() < 0.1:
                value = chance.choice(values)
                setattr(message, name, list(value) if name == "data" else value)
        if chance.random() < 0.2:
            message.header.stamp.sec = chance.choice((0, 1, 2**31 - 1, -(2**31)))
        return message

    def camera(self, seed):
        chance = random.Random(seed)
        with self.graph.camera() as raw, self.graph.camera("other") as other:
            while not self.over.wait(1 / 60):
                chance.choice((raw, other)).publish(self.image(chance))

    def step(self):
        chance = self.chance
        if chance.random() < 0.15:
            self.graph.change(chance.choice(TRANSITIONS))
            return
        name = chance.choice(list(VALUES))
        value = chance.choice(VALUES[name])
        if name == "model" and value and not value.startswith("/"):
            value = self.models(value)
        self.graph.set(**{name: value})


def resources(pid):
    """Threads and open files of a process."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("seconds", [SECONDS, LONG])
def test_a_node_outlives_it(graph, start, models, seconds):
    from vision_msgs.msg import Detection2DArray

    seed = random.randrange(1 << 30)
    process = start(f"model:={models('fake')}", "diagnostics_period:=0.1")
    graph.wait_for_state("active")
    storm = Storm(graph, models, seed)
    camera = threading.Thread(target=storm.camera, args=(seed,))

    def works(inbox):
        """It finds what an image shows; returns what it has then."""
        with graph.camera() as eye:
            send_until(graph, eye, inbox, lambda: graph.image(scene()), lambda m: m.detections)
            return resources(process.popen.pid)

    with graph.listen(Detection2DArray, "detections") as inbox:
        before = works(inbox)
        camera.start()
        end, steps = time.monotonic() + seconds, 0
        try:
            while time.monotonic() < end:
                storm.step()
                steps += 1
                assert process.popen.poll() is None, f"seed {seed}, step {steps}:\n{process.log}"
        finally:
            storm.over.set()
            camera.join()
        # Back to what it was: it works as ever.
        good = {
            "model": models("fake"), "confidence": 0.5, "max_rate": 0.0, "enabled": True,
            "max_image_pixels": 1 << 26, "image_topic": "image", "image_transport": "raw",
            "input_depth": 1, "ball.confidence": 0.5, "max_frame_age": 0.5,
        }  # fmt: skip
        said = graph.set(**good)
        for transition in ("configure", "activate"):
            graph.change(transition)
        assert graph.state() == "active", f"seed {seed}: {said}\n{process.log}"
        graph.set(**good)
        inbox.clear()
        after = works(inbox)
    # A publisher that was there for a moment may still be known.
    assert all(now <= then + 4 for now, then in zip(after, before, strict=True)), (before, after)
    assert "Traceback" not in process.log, f"seed {seed}:\n{process.log}"
    assert steps > seconds
