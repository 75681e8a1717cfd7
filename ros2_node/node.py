"""The lifecycle node: what ROS calls, handed on to the parts that do the work."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter
from rclpy.task import Future
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from tvm_vision.errors import DeviceLostError, InputError
from tvm_vision.models.class_options import ClassOptions
from tvm_vision.models.tracking import need_tracker

from . import ros_parameters
from .camera_source import source_of
from .cameras import Camera
from .class_parameters import ClassParameters
from .diagnostics import Conditions, is_stalled, statuses
from .listeners import BothSinks, Listener, Listeners
from .model_folder import find_model
from .model_loader import ModelRequest, load_and_warm
from .networks import Host, Networks
from .pipeline import CameraFrame, NetworkJob, Pipeline
from .reasons import one_line
from .ros_messages import builder
from .ros_outputs import Outputs
from .ros_qos import name_unused, overridden, profile
from .settings import (
    CONFIGURE,
    RELOAD,
    START,
    SUBSCRIBE,
    effects,
    input_topics,
    parameters,
)
from .sharing import Turns
from .statistics import DROPPED, STOPPED, Statistics
from .worker import Worker

SUCCESS = TransitionCallbackReturn.SUCCESS
FAILURE = TransitionCallbackReturn.FAILURE
# Between looks at who listens, and at the camera.
TICK_SECONDS = 0.1
# Between two attempts to load a network again after its device failed.
RECOVERY_SECONDS = 5.0
# Others need a moment to be discovered before two nodes of one name can be told.
DISCOVERY_SECONDS = 2.0


class VisionNode(LifecycleNode):
    """Runs one network over the images of one camera."""

    def __init__(
        self,
        load: Callable[[ModelRequest], Any] = load_and_warm,
        turns: Turns | None = None,
        **more: Any,
    ) -> None:
        """load: makes a network of a request. turns: those of all nodes that share it. Raises
        InputError for a wrong parameter."""
        super().__init__("vision", **more)
        others = ros_parameters.take_others(self)
        self.settings = ros_parameters.declare(self)
        if self.settings.tracking:
            need_tracker()
        ros_parameters.name_unknown(self, others.known)
        if self.settings.camera:
            source_of(self.settings.camera)
        self.statistics = Statistics()
        log = self.get_logger()
        self.pipeline = Pipeline(
            self.settings, self.statistics, self._now, log, self._device_failed, turns
        )
        self.worker: Worker[CameraFrame] = Worker(
            self.pipeline.process,
            dropped=lambda frame: self.statistics.count(DROPPED),
            let_go=lambda frame: self.statistics.count(STOPPED),
            failed=self.pipeline.failed,
        )
        # Calls from other threads, which wait for their turn among the node's callbacks.
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._called = self.create_guard_condition(self._next_call)
        self._builder = builder()
        self.outputs = Outputs(self, self._builder, log.warning)
        self.listeners = Listeners(log)
        self._sink = BothSinks(self.listeners, self.outputs)
        self.networks = Networks(
            Host(self._open_outputs, self._use, self._restore, self._in_executor, log), load
        )
        # While the parameters are put back: nobody asked for that.
        self._restoring = False
        self._start_due = False
        self.camera = Camera(self, self._on_image, self.statistics)
        self._active = False
        self._fault = ""
        self._recovery_due = 0.0
        self._name_check_after = DISCOVERY_SECONDS
        self._name_check_due = time.monotonic() + self._name_check_after
        qos = overridden(self, "/diagnostics", "publisher", profile("reliable", 10))
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", qos)
        self._tick_timer = self._new_timer(TICK_SECONDS, self._tick)
        self._diagnostics_timer = self._new_diagnostics_timer()
        self._services_own = [
            self.create_service(SetBool, "~/enable", self._on_enable),
            # Of another group: an answer that is waited for would hold up all callbacks of its own.
            self.create_service(
                Trigger,
                "~/load_model",
                self._on_load_model,
                callback_group=ReentrantCallbackGroup(),
            ),
            self.create_service(Trigger, "~/reset_tracking", self._on_reset_tracking),
        ]
        self._refuse_impossible_transitions()
        ros_parameters.watch(self, self._check_parameters)
        self.classes = ClassParameters(self, frozenset(others.values), self._use_class_options)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each SeenImage, in the thread that infers; see Listeners.add.

        For a program that has this node in its own process: nothing passes DDS.
        """
        return self.listeners.add(listener)

    def set_parameters_atomically(self, parameter_list: list[RosParameter]) -> SetParametersResult:
        """As rclpy's; takes 1 for 1.0, and names what is like a parameter that is not there.

        What changed is applied here: of rclpy's callbacks for that Humble has none.
        """
        reason = ros_parameters.undeclared(self, (item.name for item in parameter_list))
        if reason:
            return SetParametersResult(successful=False, reason=reason)
        changes = ros_parameters.widen(parameter_list)
        result = super().set_parameters_atomically(changes)
        if result.successful:
            self._apply_parameters(ros_parameters.known_among(changes))
            self.classes.apply(changes)
        return result

    def set_parameters(self, parameter_list: list[RosParameter]) -> list[SetParametersResult]:
        """As rclpy's, which goes around the method above."""
        return [self.set_parameters_atomically([item]) for item in parameter_list]

    @property
    def up(self) -> bool:
        """Whether it runs its network, or waits to be told to."""
        return self._active or not self.settings.autostart

    @property
    def frame_seconds(self) -> float:
        """How long it has been at its frame; 0 while there is none."""
        return self.worker.seconds

    # Lifecycle

    def start(self) -> None:
        """Configure and activate, where the parameter autostart says so, once an executor spins."""
        self._in_executor(self._start)

    def _start(self) -> None:
        self._start_due = False
        if not self.settings.autostart or self._state() != "unconfigured":
            return
        if self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def end(self) -> None:
        """Let go of everything; for when its executor has ended."""
        # Who manages the lifecycle may have shut it down before.
        if self._state() != "finalized":
            self.trigger_shutdown()
        self.destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        if self.networks.configure(self._request()):
            self._fault = ""
            return SUCCESS
        self.outputs.close()
        return FAILURE

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            self._active = True
            self.worker.start()
            self._publish_labels()
            self._listen()
            name_unused(self, input_topics(self.settings).values())
        except Exception as error:
            # Still inactive, with its network: the next attempt may go well.
            self._rest()
            self._fault = f"the node cannot be activated ({one_line(error)})"
            self.get_logger().error(self._fault)
            return FAILURE
        self._fault = ""
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._rest()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._release()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.networks.close(timeout=5.0)
        self._release()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of everything: the node can be configured again."""
        self._release()
        self._fault = "a transition failed: the node is unconfigured, and can be configured again"
        self.get_logger().error(self._fault)
        return SUCCESS

    def _refuse_impossible_transitions(self) -> None:
        """Until Kilted, rclpy raises in the executor for one, and the node would end by it."""
        (service,) = (item for item in self.services if item.srv_type is ChangeState)
        change = service.callback

        def answer(request: Any, response: Any) -> Any:
            try:
                return change(request, response)
            except RuntimeError as error:  # of rcl, which has no public class for it
                self.get_logger().error(f"there is no such transition now ({one_line(error)})")
                response.success = False
                return response

        service.callback = answer

    def _rest(self) -> None:
        """Stop listening and wait for the frame in hand."""
        self._active = False
        self.camera.close()
        self.worker.stop()

    def _release(self) -> None:
        self._rest()
        self.pipeline.job = None
        self.outputs.close()
        self._fault = ""
        self.networks.release()

    # Network

    def _request(self) -> ModelRequest:
        return ModelRequest(
            **{item.name: getattr(self.settings, item.name) for item in fields(ModelRequest)}
        )

    def _open_outputs(self, model: Any) -> None:
        self.outputs.open(model, self.settings)

    def _use(self, model: Any) -> None:
        names = model.class_names if "detections" in model.produces else ()
        self.pipeline.class_options = self.classes.open(names)
        self.pipeline.job = NetworkJob(model, self._sink)
        if self._active:
            self._publish_labels()

    def _use_class_options(self, options: dict[str, ClassOptions]) -> None:
        self.pipeline.class_options = options
        if self._active:
            self._publish_labels()

    def _restore(self, request: ModelRequest) -> None:
        """Let the parameters say what runs.

        All at once: between two of them stands a network that nobody asked for, and it would be
        loaded.
        """
        self._restoring = True
        try:
            result = self.set_parameters_atomically(
                [
                    RosParameter(name, value=value)
                    for name, value in vars(request).items()
                    if parameters()[name].effect != START
                ]
            )
        finally:
            self._restoring = False
        if not result.successful:
            self.get_logger().error(f"the parameters do not say what runs: {result.reason}")

    def _device_failed(self, error: Exception) -> None:
        """In the worker's thread."""
        # A device that was lost is opened anew with the next frame, and /diagnostics tells of it.
        if not isinstance(error, DeviceLostError):
            self._in_executor(self._recover, one_line(error))

    def _recover(self, problem: str) -> None:
        now = time.monotonic()
        if now < self._recovery_due or not self._active:
            return
        self._recovery_due = now + RECOVERY_SECONDS
        self.get_logger().error(f"the device failed, the network is loaded again: {problem}")
        self.networks.load_again()

    def _publish_labels(self) -> None:
        job = self.pipeline.job
        if job is not None:
            rules = self.pipeline.class_rules(job.model)
            self.outputs.publish_labels(job.model, self._header(), rules)

    # Images

    def _listen(self) -> None:
        """Subscribe or not, as the state, the parameters and the listeners want it."""
        settings = self.settings
        wanted = self._active and settings.enabled
        self.outputs.listen(wanted)
        if wanted and settings.lazy:
            wanted = self._sink.wanted()
        if not wanted:
            self.camera.close()
        elif self.camera.waiting is None:
            self.pipeline.forget_warnings()
            self.camera.open(settings)

    def _on_image(self, message: Any) -> None:
        """Only keep it: the worker's thread does the rest."""
        self.statistics.received()
        stamp = message.header.stamp
        self.worker.offer(CameraFrame(message, stamp.sec + 1e-9 * stamp.nanosec, self._now()))

    # Parameters and services

    def _check_parameters(self, values: dict[str, Any]) -> str:
        job = self.pipeline.job
        try:
            if values.get("tracking"):
                need_tracker()
            if self._restoring:
                return ""
            wanted = replace(self.settings, **values)
            ros_parameters.need_topics(self, wanted)
            if values.get("camera"):
                source_of(values["camera"])
            if job is None:
                return ""
            if "model" in values:
                find_model(values["model"])
            self.outputs.check(job.model, wanted)
        except InputError as error:
            return one_line(error)
        return ""

    def _apply_parameters(self, values: dict[str, Any]) -> None:
        changed = {name for name, value in values.items() if getattr(self.settings, name) != value}
        self.settings = self.pipeline.settings = replace(self.settings, **values)
        if self._restoring:
            return
        job = self.pipeline.job
        if RELOAD in effects(values):
            self._want_network()
        if job is None:
            return
        needed = effects(changed)
        if SUBSCRIBE in needed:
            self.camera.close()
        if CONFIGURE not in needed:
            self.outputs.open(job.model, self.settings)
        if "confidence" in changed and self._active:
            self._publish_labels()
        if "diagnostics_period" in changed:
            self.destroy_timer(self._diagnostics_timer)
            self._diagnostics_timer = self._new_diagnostics_timer()
        self._listen()

    def _want_network(self) -> None:
        """The parameters name a network, perhaps the same as before."""
        if self.pipeline.job is not None:
            self.networks.want(self._request())
        elif self.settings.autostart and self.networks.facts.failure and not self._start_due:
            # Once for several parameters that are set one by one.
            self._start_due = True
            self.start()

    def _on_enable(self, request: Any, response: Any) -> Any:
        (result,) = self.set_parameters([RosParameter("enabled", value=bool(request.data))])
        response.success = result.successful
        response.message = result.reason
        if result.successful:
            response.message = "disabled: images pass unseen"
            if request.data:
                response.message = "enabled"
                if not self._active:
                    response.message += f"; the node is {self._state()}: it runs once it is active"
        return response

    async def _on_load_model(self, request: Any, response: Any) -> Any:
        """Load what ``model`` names, again where it is in use, and answer when that is done."""
        done: Future = Future(executor=self.executor)
        # Not here: callbacks of another group may run beside the node's own.
        self._in_executor(
            self.networks.ask, lambda success, message: done.set_result((success, message))
        )
        response.success, response.message = await done
        return response

    def _on_reset_tracking(self, request: Any, response: Any) -> Any:
        response.success = self.settings.tracking
        response.message = "the objects of the next image get new ids"
        if not response.success:
            response.message = "nothing is tracked: set the parameter tracking to true"
        self.pipeline.tracks.reset()
        return response

    # Watching

    def _tick(self) -> None:
        self._listen()
        self._watch_camera()
        if self._name_check_due and time.monotonic() > self._name_check_due:
            self._check_name()

    def _watch_camera(self) -> None:
        silent = is_stalled(self.statistics.silence(), self._conditions())
        self.camera.watch(silent, self.settings.stall_timeout)

    def _check_name(self) -> None:
        """Warns once of another node of this name, and looks again, each time after twice as long,
        until then: on a busy machine it may be seen late."""
        own = (self.get_name(), self.get_namespace())
        self._name_check_after *= 2
        self._name_check_due = time.monotonic() + self._name_check_after
        if self.get_node_names_and_namespaces().count(own) > 1:
            self._name_check_due = 0.0
            self.get_logger().warning(
                f"another node is called {self.get_fully_qualified_name()}, and both answer: start "
                "one in another namespace (namespace:=...) or ROS_DOMAIN_ID"
            )

    def _conditions(self) -> Conditions:
        idle = ""
        if not self._active:
            idle = "not active"
        elif not self.settings.enabled:
            idle = "disabled"
        elif self.camera.waiting is None:
            idle = "nobody listens"
        return Conditions(
            state=self._state(),
            idle=idle,
            fault=self._fault,
            waiting_since=self.camera.waiting,
            stall_timeout=self.settings.stall_timeout,
            topic=self.camera.topic(self.settings),
            silence=self.camera.reason,
            room=self.camera.room,
        )

    def _state(self) -> str:
        return str(self._state_machine.current_state[1])

    def _new_diagnostics_timer(self) -> Any:
        return self._new_timer(self.settings.diagnostics_period, self._publish_diagnostics)

    def _publish_diagnostics(self) -> None:
        self._watch_camera()
        lines = statuses(
            self.get_fully_qualified_name().lstrip("/"),
            self.networks.facts,
            self.statistics.snapshot(),
            self._conditions(),
        )
        self._diagnostics.publish(self._builder.diagnostics(self._header(), lines))

    # Helpers

    def _new_timer(self, seconds: float, call: Callable[[], None]) -> Any:
        # Not by the time of a simulation: while that stands still the node has to say so.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        return self.create_timer(seconds, call, clock=steady)

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def _header(self) -> Header:
        return Header(stamp=self.get_clock().now().to_msg())

    def _in_executor(self, call: Callable[..., Any], *arguments: Any) -> None:
        """From any thread; the call never runs beside a callback of the node, in any executor."""
        self._calls.append((call, arguments))
        # Of rclpy: the node was destroyed meanwhile, and nobody waits for the call any more.
        with contextlib.suppress(RuntimeError):
            self._called.trigger()

    def _next_call(self) -> None:
        if not self._calls:
            return
        call, arguments = self._calls.popleft()
        if self._calls:
            # One at a time, so that one that raises takes no other with it.
            self._called.trigger()
        call(*arguments)
