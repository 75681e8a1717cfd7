"""The thread of an executor: it ends when it is told to, wherever it is at that moment."""

import threading
import time

import pytest


@pytest.fixture
def node(ros):
    import rclpy

    context = rclpy.Context()
    rclpy.init(context=context)
    made = rclpy.create_node("spinning", context=context)
    yield made
    made.destroy_node()
    context.try_shutdown()


@pytest.fixture
def executor(node):
    from rclpy.executors import SingleThreadedExecutor

    made = SingleThreadedExecutor(context=node.context)
    made.add_node(node)
    return made


def ends(spinning):
    """Whether it does, in a thread of its own: what waits for ever must not keep the test."""
    thread = threading.Thread(target=spinning.end, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.2])
def test_it_ends_although_it_is_about_to_wait(executor, monkeypatch, delay):
    """Between its look at whether it is to end and its waiting are some tenths of a second here."""
    from tvm_vision_ros.ros_spinning import Spinning

    can_execute = executor.can_execute

    def slow(entity):
        time.sleep(0.01)
        return can_execute(entity)

    monkeypatch.setattr(executor, "can_execute", slow)
    spinning = Spinning(executor)
    time.sleep(delay)
    assert ends(spinning)
    assert not spinning.fault


def test_a_callback_that_runs_is_waited_for(executor):
    from tvm_vision_ros.ros_spinning import Spinning

    began, done = threading.Event(), threading.Event()

    def callback():
        began.set()
        time.sleep(0.3)
        done.set()

    spinning = Spinning(executor)
    executor.create_task(callback)
    assert began.wait(10)
    assert ends(spinning)
    assert done.is_set()


def test_an_error_that_nobody_handled_ends_it_and_is_kept(executor):
    from tvm_vision_ros.ros_spinning import Spinning

    ended = threading.Event()
    spinning = Spinning(executor, at_end=ended.set)

    def fail():
        raise RuntimeError("nobody expected it")

    executor.create_task(fail)
    assert ended.wait(10)
    assert ends(spinning)
    assert "RuntimeError: nobody expected it" in spinning.fault


def test_a_context_that_somebody_else_ends(node, executor):
    from tvm_vision_ros.ros_spinning import Spinning

    ended = threading.Event()
    spinning = Spinning(executor, at_end=ended.set)
    node.context.try_shutdown()
    assert ended.wait(10)
    assert ends(spinning)
    assert not spinning.fault
