"""A real ROS graph for tests: the node as a process, and a camera and listeners in this one."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from tvm_vision_ros.ros_messages import octets
from tvm_vision_ros.ros_qos import profile
from tvm_vision_ros.ros_spinning import Spinning

HERE = Path(__file__).resolve().parent
FAKE = HERE / "fake_node.py"
WAIT = 20.0
ASK_AGAIN = 3.0
DISCOVERED = 0.2  # seconds in which a server sees a client's reader, as a rule
ANEW = 1.0  # seconds in which no process can take another's place
QUESTIONS = (GetState, GetParameters, DescribeParameters)
TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
    "unconfigured_shutdown": Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
    "inactive_shutdown": Transition.TRANSITION_INACTIVE_SHUTDOWN,
    "active_shutdown": Transition.TRANSITION_ACTIVE_SHUTDOWN,
}


class Process:
    """The node as a process of its own; what it logs is kept line by line."""

    def __init__(
        self,
        *arguments: str,
        program: Path | str = FAKE,
        ros: tuple[str, ...] = (),
        command: tuple[str, ...] = (),
        unset: tuple[str, ...] = (),
    ):
        """arguments: parameters. ros: more behind --ros-args. command: instead of all of these.

        unset: variables of the environment that it does not get.
        """
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "RCUTILS_COLORIZED_OUTPUT": "0",
            "TVM_USE_RUNTIME_LIB": "1",
        }
        for name in unset:
            environment.pop(name, None)
        if not command:
            parameters = [word for argument in arguments for word in ("-p", argument)]
            command = ("--ros-args", *parameters, *ros)
        self.popen = subprocess.Popen(
            [sys.executable, str(program), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=HERE,
        )
        # A node that outlived a test that failed would answer in the place of the next one's.
        atexit.register(self.kill)
        self.lines: list[str] = []
        self._condition = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._condition:
                self.lines.append(line.rstrip())
                self._condition.notify_all()

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, words: str, timeout: float = WAIT) -> str:
        """The first line with these words."""

        def found() -> str | None:
            return next((line for line in self.lines if words in line), None)

        with self._condition:
            self._condition.wait_for(lambda: found() is not None, timeout)
        line = found()
        assert line is not None, f"'{words}' is not in the log:\n{self.log}"
        return line

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal and return the exit code."""
        self.popen.send_signal(number)
        code = self.popen.wait(WAIT)
        self._reader.join(WAIT)
        return code

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        atexit.unregister(self.kill)


class Inbox:
    """Messages of one topic as they come."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[float, Any]] = queue.Queue()
        self.last_received = 0.0

    def put(self, message: Any) -> None:
        self._queue.put((time.time(), message))

    def next(self, timeout: float = WAIT) -> Any:
        self.last_received, message = self._queue.get(timeout=timeout)
        return message

    def until(self, accept: Callable[[Any], bool], timeout: float = WAIT) -> Any:
        """The first message that is accepted."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            message = self.next(left)
            if accept(message):
                return message
        raise AssertionError("no such message came")

    def clear(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def all(self) -> list[Any]:
        messages = []
        with contextlib.suppress(queue.Empty):
            while True:
                messages.append(self._queue.get_nowait()[1])
        return messages


class Graph:
    """This process's side: publishers, listeners, clients, spinning in a thread."""

    def __init__(self) -> None:
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("tester", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._spinning = Spinning(self.executor)
        self._clients: dict[str, Any] = {}
        self._answered: dict[str, float] = {}

    def close(self) -> None:
        self._spinning.end()
        assert not self._spinning.fault
        self.node.destroy_node()
        self.context.try_shutdown()

    def in_executor(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Run there: waiting on a set that another thread changes is not what rclpy is for."""
        task = self.executor.create_task(lambda: call(*arguments, **named))
        end = time.monotonic() + WAIT
        while not task.done():
            assert time.monotonic() < end
            time.sleep(0.001)
        return task.result()

    @contextlib.contextmanager
    def listen(
        self, kind: type, topic: str, reliability: str = "reliable", latched: bool = False
    ) -> Iterator[Inbox]:
        inbox = Inbox()
        qos = profile(reliability, 50, latched=latched)
        subscription = self.in_executor(self.node.create_subscription, kind, topic, inbox.put, qos)
        yield inbox
        self.in_executor(self.node.destroy_subscription, subscription)

    @contextlib.contextmanager
    def camera(
        self,
        topic: str = "image",
        reliability: str = "reliable",
        kind: type = Image,
        latched: bool = False,
    ) -> Iterator[Any]:
        qos = profile(reliability, 1, latched=latched)
        publisher = self.in_executor(self.node.create_publisher, kind, topic, qos)
        yield publisher
        self.in_executor(self.node.destroy_publisher, publisher)

    def stamp(self) -> Any:
        return self.node.get_clock().now().to_msg()

    def image(self, pixels: np.ndarray, encoding: str = "bgr8", **changes: Any) -> Image:
        height, width = pixels.shape[:2]
        fields = {
            "header": Header(stamp=self.stamp(), frame_id="camera"),
            "height": height,
            "width": width,
            "encoding": encoding,
            "step": pixels.strides[0],
            "data": octets(pixels.reshape(-1)),
        }
        return Image(**{**fields, **changes})

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float = WAIT) -> None:
        end = time.monotonic() + timeout
        while not ready():
            assert time.monotonic() < end, f"waited in vain: {what}"
            time.sleep(0.005)

    def wait_for_subscriber(self, publisher: Any) -> None:
        """Until this side knows of a subscriber, and as long as that one needs to know of it.

        Nothing here shows that it does, and one of best effort gets nothing before. A node that is
        to get the only image starts with :data:`support.ros.SURE`.
        """
        self.wait_until(lambda: publisher.get_subscription_count() > 0, "a subscriber")
        time.sleep(DISCOVERED)

    def call(self, kind: type, name: str, request: Any, timeout: float = WAIT) -> Any:
        """The answer of a service.

        A question is asked again while no answer comes: a server that has not yet discovered this
        client's reader waits a tenth of a second for it and then drops the answer, and nothing on
        this side shows whether it has. Parameters, which are the same when they are set twice, are
        set again after half of the time; what else changes something is asked once.
        """
        client = self._clients.get(name)
        if client is None:
            client = self.in_executor(self.node.create_client, kind, name)
            self._clients[name] = client
        assert client.wait_for_service(timeout), name
        if kind not in QUESTIONS and time.monotonic() - self._answered.get(name, -ANEW) >= ANEW:
            time.sleep(DISCOVERED)
        answers: queue.Queue[Any] = queue.Queue()
        between = ASK_AGAIN if kind in QUESTIONS else timeout / (1 + (kind is SetParameters))
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            future = client.call_async(request)
            future.add_done_callback(lambda future: answers.put(future.result()))
            with contextlib.suppress(queue.Empty):
                answer = answers.get(timeout=min(between, left))
                self._answered[name] = time.monotonic()
                return answer
        raise AssertionError(f"no answer from {name}")

    def change(self, transition: str, node: str = "/vision") -> bool:
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return bool(self.call(ChangeState, f"{node}/change_state", request).success)

    def state(self, node: str = "/vision") -> str:
        answer = self.call(GetState, f"{node}/get_state", GetState.Request())
        return str(answer.current_state.label)

    def wait_for_state(self, state: str, node: str = "/vision") -> None:
        self.wait_until(lambda: self.state(node) == state, f"state {state}")

    def set(self, node: str = "/vision", **values: Any) -> str:
        """Set parameters one by one; returns the reason of the first refusal, or ""."""
        request = SetParameters.Request()
        for name, value in values.items():
            message = Parameter(name, value=value).to_parameter_msg()
            assert isinstance(message, ParameterMessage)
            request.parameters.append(message)
        answer = self.call(SetParameters, f"{node}/set_parameters", request)
        return next((item.reason for item in answer.results if not item.successful), "")

    def set_at_once(self, node: str = "/vision", **values: Any) -> str:
        """Set all parameters or none; returns the reason of the refusal, or ""."""
        messages = [
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ]
        request = SetParametersAtomically.Request(parameters=messages)
        name = f"{node}/set_parameters_atomically"
        answer = self.call(SetParametersAtomically, name, request)
        return "" if answer.result.successful else str(answer.result.reason)

    def get(self, name: str, node: str = "/vision") -> Any:
        request = GetParameters.Request(names=[name])
        answer = self.call(GetParameters, f"{node}/get_parameters", request)
        return parameter_value_to_python(answer.values[0])

    def describe(self, names: list[str], node: str = "/vision") -> list[Any]:
        request = DescribeParameters.Request(names=names)
        answer = self.call(DescribeParameters, f"{node}/describe_parameters", request)
        return list(answer.descriptors)

    @contextlib.contextmanager
    def diagnostics(self) -> Iterator[Inbox]:
        with self.listen(DiagnosticArray, "/diagnostics") as inbox:
            yield inbox


def lines_of(message: DiagnosticArray) -> dict[str, tuple[int, str, dict[str, str]]]:
    """Last word of a status's name -> level, message, values."""
    return {
        status.name.split()[-1]: (
            status.level[0],
            status.message,
            {value.key: value.value for value in status.values},
        )
        for status in message.status
    }
