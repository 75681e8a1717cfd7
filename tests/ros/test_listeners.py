"""Results within the process: the same objects, to all who listen, and to nobody who left."""

from types import SimpleNamespace
from typing import Any

from tvm_vision_ros.listeners import BothSinks, Listeners


class Others:
    def __init__(self):
        self.asked, self.published = False, []

    def wanted(self):
        return self.asked

    def publish(self, *what):
        self.published.append(what)


def test_who_listens_gets_the_same_objects_and_who_left_nothing():
    errors: list[str] = []
    listeners, others = Listeners(SimpleNamespace(error=errors.append)), Others()
    both = BothSinks(listeners, others)
    seen: list[Any] = []
    assert not both.wanted()
    others.asked = True
    assert both.wanted()
    others.asked = False
    remove = listeners.add(seen.append)
    remove_other = listeners.add(seen.append)
    assert both.wanted()
    what = [object() for _ in range(4)]
    both.publish(*what)
    remove()
    remove()
    assert [vars(item) for item in seen] == [
        dict(zip(("header", "image", "result", "times"), what, strict=True))
    ] * 2
    remove_other()
    both.publish(*what)
    assert (len(seen), len(others.published), errors) == (2, 2, [])
    assert not both.wanted()


def test_a_listener_that_fails_harms_nobody_and_is_told_once():
    errors: list[str] = []
    listeners = Listeners(SimpleNamespace(error=errors.append))
    seen: list[Any] = []

    def fail(item):
        raise KeyError("x")

    listeners.add(fail)
    listeners.add(seen.append)
    both = BothSinks(listeners, Others())
    for _ in range(3):
        both.publish(1, 2, 3, 4)
    assert len(seen) == 3
    assert errors == ["a listener to results failed: KeyError: 'x'"]
