"""Networks handed over in a node that is none: what services and /diagnostics are told."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from support.ros import fakes
from tvm_vision.errors import InputError
from tvm_vision.runtime.recovery import Losses
from tvm_vision_ros.model_loader import ModelRequest
from tvm_vision_ros.networks import Host, Networks


class Node:
    """Has what networks need of a node; what the loader's thread leaves is done in ``work``."""

    def __init__(self):
        self.event = threading.Event()
        self.calls: list[Any] = []
        self.used: list[Any] = []
        self.restored: list[Any] = []
        self.errors: list[Any] = []
        self.loads: list[Any] = []
        self.refuses = ""
        log = SimpleNamespace(
            info=lambda words: None, warning=lambda words: None, error=self.errors.append
        )
        host = Host(self.open, self.used.append, self.restored.append, self.later, log)
        self.networks = Networks(host, self.load)

    def load(self, request):
        self.loads.append(request.model)
        return fakes.load(request)

    def open(self, model):
        if model.name == self.refuses:
            raise InputError("a package is missing")

    def later(self, *call):
        self.calls.append(call)
        self.event.set()

    def work(self):
        assert self.event.wait(10)
        self.event.clear()
        call, *arguments = self.calls.pop()
        call(*arguments)

    def ask(self):
        """load_model's answer, None while it waits."""
        answers = []
        self.networks.ask(lambda *answer: answers.append(answer))
        return answers


@pytest.fixture
def node():
    made = Node()
    assert made.networks.configure(ModelRequest("fake"))
    return made


@pytest.mark.parametrize("name", ["broken", "odd", "refused"])
def test_a_refused_network_is_the_answer_until_another_is_asked_for(node, name):
    node.refuses = "refused"
    node.networks.want(ModelRequest(name, top=3))
    node.work()
    assert node.restored == [ModelRequest("fake")]
    assert [model.name for model in node.used] == ["fake"]
    loads = list(node.loads)
    for _ in range(3):
        ((success, words),) = node.ask()
        assert not success
        assert words.startswith("fake stays in use, for the new network failed: ")
        assert words.endswith("; set the parameter model anew to load one")
        assert "\n" not in words
    assert node.loads == loads
    assert node.networks.facts.failure in node.errors[0]
    node.networks.want(ModelRequest("fake"))
    assert node.networks.facts.failure == ""
    answers = node.ask()
    assert answers == []
    node.work()
    assert answers == [(True, "fake on a processor of the tests (cpu)")]


def test_who_waits_while_it_fails_is_told(node):
    node.networks.want(ModelRequest("broken"))
    first, second = node.ask(), node.ask()
    node.work()
    assert first == second
    ((success, words),) = first
    assert not success and "SHA-256" in words


def test_not_configured_says_why():
    node = Node()
    ((success, words),) = node.ask()
    assert not success and words.startswith("the node is not configured: ")
    assert not node.networks.configure(ModelRequest("broken"))
    ((success, words),) = node.ask()
    assert not success and "SHA-256" in words
    assert node.networks.configure(ModelRequest("fake"))
    assert node.networks.facts.failure == ""


def test_released_meanwhile(node):
    answers = node.ask()
    node.networks.release()
    assert answers == [(False, "the node was cleaned up meanwhile")]
    node.work()
    # What was being loaded comes too late.
    assert [model.name for model in node.used] == ["fake"]


def test_what_became_of_the_device_is_told_with_the_device_it_runs_on_now(node):
    (model,) = node.used
    assert node.networks.facts.losses == Losses()
    model.losses = Losses(2, 1, "the GPU was reset", on_fallback=True)
    model.device_description, model.device_type = "cpu(0): the CPU through LLVM", "cpu"
    facts = node.networks.facts
    assert facts.losses is model.losses
    assert (facts.device, facts.device_type) == ("cpu(0): the CPU through LLVM", "cpu")
    node.networks.release()
    assert node.networks.facts.losses == Losses()
