"""From one network to the next: every sequence of what can happen, against what is true then."""

import itertools

import pytest

from tvm_vision_ros.changeover import Changeover
from tvm_vision_ros.model_loader import ModelRequest

OLD, OTHER, SMALL = ModelRequest("old"), ModelRequest("other"), ModelRequest("old", top=3)


class Truth:
    """What somebody outside knows: what was asked for last, and what became of it."""

    def __init__(self):
        self.change = Changeover()
        self.change.configured(OLD)
        self.asked, self.failed, self.in_use = OLD, False, OLD
        self.started = []

    def set(self, request):
        """The parameters are set, by people."""
        self.asked, self.failed = request, False
        if self.change.wanted(request):
            self.started.append(request)

    def again(self):
        """The device failed, or load_model is called."""
        request = self.change.again()
        if request is not None:
            self.started.append(request)

    def end(self, good):
        """The load that was started first ends."""
        if not self.started:
            return
        request = self.started.pop(0)
        if not self.change.ended(request, "" if good else f"{request.model} is broken"):
            return
        if good:
            self.in_use = request
        elif request == self.asked and request != self.in_use:
            self.failed = True


STEPS = {
    "set old": lambda truth: truth.set(OLD),
    "set other": lambda truth: truth.set(OTHER),
    "set small": lambda truth: truth.set(SMALL),
    "again": Truth.again,
    "good": lambda truth: truth.end(True),
    "bad": lambda truth: truth.end(False),
}


@pytest.mark.parametrize("length", range(1, 7))
def test_a_refusal_is_told_until_another_network_is_asked_for(length):
    """The service answers a success only where what was asked for last is in use."""
    for names in itertools.product(STEPS, repeat=length):
        truth = Truth()
        for name in names:
            STEPS[name](truth)
        change = truth.change
        assert change.used == truth.in_use, names
        assert bool(change.refused) == truth.failed, names
        if change.loading is None and not change.refused:
            assert change.used == truth.asked, names


def test_what_failed_is_named():
    change = Changeover()
    change.configured(OLD)
    assert change.wanted(OTHER)
    assert change.ended(OTHER, "a byte is wrong")
    assert change.failure == change.refused == "a byte is wrong"
    # The device fails, and the old network is loaded again: nothing new of the other one.
    assert change.again() == OLD
    assert change.ended(OLD)
    assert change.failure == "a byte is wrong"
    assert not change.wanted(OLD)
    assert change.failure == ""


def test_one_that_cannot_be_loaded_again_can_be_tried_again():
    change = Changeover()
    change.configured(OLD)
    assert change.again() == OLD
    assert change.ended(OLD, "the device is lost")
    assert (change.failure, change.refused) == ("the device is lost", "")
    # Naming it anew does not mend it.
    assert not change.wanted(OLD)
    assert change.failure == "the device is lost"
    assert change.again() == OLD
    assert change.ended(OLD)
    assert change.failure == ""


def test_transitions_settle_everything():
    change = Changeover(OLD, OTHER, "refused", "broken")
    change.configured(OTHER)
    assert change == Changeover(OTHER)
    change = Changeover(OLD, OTHER, "refused", "broken")
    change.released()
    assert change == Changeover()
    assert change.again() is None
