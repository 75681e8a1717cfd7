"""The lifecycle node: what ROS calls, handed on to the parts that do the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from tvm_vision.errors import InputError, TvmVisionError

from . import ros_parameters
from .diagnostics import Conditions, ModelFacts, is_stalled, statuses
from .model_folder import find_model
from .model_loader import ModelLoader, ModelRequest, load_and_warm
from .pipeline import Frame, Job, Pipeline
from .ros_messages import builder
from .ros_outputs import Outputs
from .ros_qos import profile, subscription_events
from .settings import CONFIGURE, RELOAD, SUBSCRIBE, effects
from .statistics import DROPPED, Statistics
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

    def __init__(self, load: Callable[[ModelRequest], Any] = load_and_warm, **more: Any) -> None:
        """load: makes a network of a request. Raises InputError for a wrong parameter."""
        super().__init__("vision", **more)
        self.settings = ros_parameters.declare(self)
        self.statistics = Statistics()
        log = self.get_logger()
        self.pipeline = Pipeline(
            self.settings, self.statistics, self._now, log, self._device_failed
        )
        self.worker: Worker[Frame] = Worker(
            self.pipeline.process,
            dropped=lambda frame: self.statistics.count(DROPPED),
            failed=self.pipeline.failed,
        )
        self._builder = builder()
        self.outputs = Outputs(self, self._builder, log.warning)
        self._load = load
        self._loader = ModelLoader(self._loaded, load)
        self._loading: ModelRequest | None = None
        self._waiting: list[Future] = []
        self._facts = ModelFacts()
        self._subscription: Any = None
        self._listening_since = 0.0
        self._stalled = False
        self._active = False
        self._recovery_due = 0.0
        self._name_check_due = time.monotonic() + DISCOVERY_SECONDS
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._tick_timer = self.create_timer(TICK_SECONDS, self._tick)
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
        ]
        ros_parameters.watch(self, self._check_parameters, self._apply_parameters)

    # Lifecycle

    def start(self) -> None:
        """Configure and activate, where the parameter autostart says so."""
        if self.settings.autostart and self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        request = self._request()
        try:
            model = self._load(request)
            self.outputs.open(model, self.settings)
        except TvmVisionError as error:
            return self._cannot_configure(" ".join(str(error).split()))
        except Exception as error:
            # Nobody's fault that has a name; rclpy would pass over it without a word.
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            return self._cannot_configure(f"the network cannot be loaded ({reason})")
        self._adopt(request, model)
        return SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._active = True
        self.worker.start()
        self._publish_labels()
        self._listen()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._rest()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._release()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._loader.close(timeout=5.0)
        self._release()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of everything: the node can be configured again."""
        self.get_logger().error("a transition failed: back to unconfigured")
        self._release()
        return SUCCESS

    def _cannot_configure(self, problem: str) -> TransitionCallbackReturn:
        self._facts = ModelFacts(path=self.settings.model, failure=problem)
        self.get_logger().error(problem)
        self.outputs.close()
        return FAILURE

    def _rest(self) -> None:
        """Stop listening and wait for the frame in hand."""
        self._active = False
        self._unsubscribe()
        self.worker.stop()

    def _release(self) -> None:
        self._rest()
        self.pipeline.job = None
        self.outputs.close()
        self._facts = ModelFacts()
        self._loading = None
        self._answer(False, "the node was cleaned up meanwhile")

    # Network

    def _request(self) -> ModelRequest:
        return ModelRequest(self.settings.model, self.settings.device, self.settings.top)

    def _loaded(self, request: ModelRequest, model: Any, problem: str) -> None:
        """In the loader's thread: the rest is for the executor's."""
        self._in_executor(self._take_over, request, model, problem)

    def _take_over(self, request: ModelRequest, model: Any, problem: str) -> None:
        if self._loading != request:
            return  # a newer request, or none any more
        self._loading = None
        if model is not None:
            try:
                self.outputs.open(model, self.settings)
            except TvmVisionError as error:
                model, problem = None, " ".join(str(error).split())
        if model is None:
            self._keep_old(problem)
            return
        self._adopt(request, model)
        if self._active:
            self._publish_labels()
        self._answer(True, f"{model.name} on {model.device_description}")

    def _adopt(self, request: ModelRequest, model: Any) -> None:
        self.pipeline.job = Job(model, self.outputs)
        self._facts = ModelFacts(
            path=request.model,
            name=model.name,
            checksum=model.checksum,
            device=model.device_description,
            device_type=model.device_type,
        )
        self._used = request
        log = self.get_logger()
        log.info(f"{model.name} ({model.checksum[:12]}) on {model.device_description}")
        if model.device_type == "cpu":
            log.warning(f"{model.name} runs on a CPU, not on a GPU: {model.device_description}")

    def _keep_old(self, problem: str) -> None:
        self.get_logger().error(f"{self._facts.name} stays in use: {problem}")
        self._facts = replace(self._facts, failure=problem)
        self._answer(False, problem)
        # The parameters say what runs.
        used = self._used
        self.set_parameters(
            [
                RosParameter(name, value=value)
                for name, value in (
                    ("model", used.model), ("device", used.device), ("top", used.top)
                )
                if getattr(self.settings, name) != value
            ]
        )  # fmt: skip

    def _reload(self) -> None:
        self._loading = self._request()
        self._loader.request(self._loading)

    def _device_failed(self, error: Exception) -> None:
        """In the worker's thread."""
        self._in_executor(self._recover, " ".join(str(error).split()))

    def _recover(self, problem: str) -> None:
        now = time.monotonic()
        if now < self._recovery_due or not self._active:
            return
        self._recovery_due = now + RECOVERY_SECONDS
        self.get_logger().error(f"the device failed, the network is loaded again: {problem}")
        self._reload()

    def _publish_labels(self) -> None:
        job = self.pipeline.job
        if job is not None:
            # A classifier publishes all of its best classes.
            threshold = self.settings.confidence if hasattr(job.model, "confidence") else 0.0
            self.outputs.publish_labels(job.model, self._header(), threshold)

    # Images

    def _listen(self) -> None:
        """Subscribe or not, as the state, the parameters and the listeners want it."""
        settings = self.settings
        wanted = self._active and settings.enabled
        if wanted and settings.lazy:
            wanted = self.outputs.wanted()
        if wanted and self._subscription is None:
            self._subscribe()
        elif not wanted and self._subscription is not None:
            self._unsubscribe()

    def _subscribe(self) -> None:
        settings = self.settings
        topic = self._topic()
        self._listening_since = time.monotonic()
        self.pipeline.forget_warnings()
        self._subscription = self.create_subscription(
            CompressedImage if settings.image_transport == "compressed" else Image,
            topic,
            self._on_image,
            profile(settings.input_reliability, settings.input_depth),
            event_callbacks=subscription_events(topic, self.get_logger().warning),
        )

    def _unsubscribe(self) -> None:
        if self._subscription is not None:
            self.destroy_subscription(self._subscription)
            self._subscription = None
        self._stalled = False

    def _topic(self) -> str:
        suffix = "/compressed" if self.settings.image_transport == "compressed" else ""
        return self.settings.image_topic + suffix

    def _on_image(self, message: Any) -> None:
        """Only keep it: the worker's thread does the rest."""
        self.statistics.received()
        stamp = message.header.stamp
        self.worker.offer(Frame(message, stamp.sec + 1e-9 * stamp.nanosec, self._now()))

    # Parameters and services

    def _check_parameters(self, values: dict[str, Any]) -> str:
        model = values.get("model")
        if model is None or self.pipeline.job is None:
            return ""
        try:
            find_model(model)
        except InputError as error:
            return " ".join(str(error).split())
        return ""

    def _apply_parameters(self, values: dict[str, Any]) -> None:
        changed = {name for name, value in values.items() if getattr(self.settings, name) != value}
        self.settings = self.pipeline.settings = replace(self.settings, **values)
        needed = effects(changed)
        job = self.pipeline.job
        if job is None:
            if RELOAD in needed and self.settings.autostart and self._facts.failure:
                self._in_executor(self.start)
            return
        if RELOAD in needed and self._request() != (self._loading or self._used):
            self._reload()
        if SUBSCRIBE in needed:
            self._unsubscribe()
        if CONFIGURE not in needed:
            self.outputs.open(job.model, self.settings)
        if "confidence" in changed and self._active:
            self._publish_labels()
        if "diagnostics_period" in changed:
            self.destroy_timer(self._diagnostics_timer)
            self._diagnostics_timer = self._new_diagnostics_timer()
        self._listen()

    def _on_enable(self, request: Any, response: Any) -> Any:
        self.set_parameters([RosParameter("enabled", value=bool(request.data))])
        response.success = True
        response.message = "enabled" if request.data else "disabled: images pass unseen"
        return response

    async def _on_load_model(self, request: Any, response: Any) -> Any:
        """Load what ``model`` names, again where it is in use, and answer when that is done."""
        if self.pipeline.job is None:
            response.success = False
            response.message = "the node is not configured: configure it, then the model is loaded"
            return response
        done: Future = Future(executor=self.executor)
        self._waiting.append(done)
        if self._loading is None:
            self._reload()
        response.success, response.message = await done
        return response

    def _answer(self, success: bool, message: str) -> None:
        """To all who wait for load_model."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result((success, message))

    # Watching

    def _tick(self) -> None:
        self._listen()
        conditions = self._conditions()
        stalled = is_stalled(self.statistics.silence(), conditions)
        if stalled and not self._stalled:
            self.get_logger().warning(
                f"no image on {conditions.topic} for {conditions.stall_timeout:g} s: check the "
                "camera, the topic and its QoS"
            )
        elif self._stalled and not stalled:
            self.get_logger().info(f"images on {conditions.topic} again")
        self._stalled = stalled
        if self._name_check_due and time.monotonic() > self._name_check_due:
            self._name_check_due = 0.0
            self._check_name()

    def _check_name(self) -> None:
        own = (self.get_name(), self.get_namespace())
        if self.get_node_names_and_namespaces().count(own) > 1:
            self.get_logger().warning(
                f"another node is called {self.get_fully_qualified_name()}, and both answer: start "
                "one in another namespace (namespace:=...) or ROS_DOMAIN_ID"
            )

    def _conditions(self) -> Conditions:
        listening = self._subscription is not None
        idle = ""
        if not self._active:
            idle = "not active"
        elif not self.settings.enabled:
            idle = "disabled"
        elif not listening:
            idle = "nobody listens"
        return Conditions(
            state=self._state_machine.current_state[1],
            idle=idle,
            waiting_since=time.monotonic() - self._listening_since if listening else None,
            stall_timeout=self.settings.stall_timeout,
            topic=self.resolve_topic_name(self._topic()),
        )

    def _new_diagnostics_timer(self) -> Any:
        return self.create_timer(self.settings.diagnostics_period, self._publish_diagnostics)

    def _publish_diagnostics(self) -> None:
        lines = statuses(
            self.get_fully_qualified_name().lstrip("/"),
            self._facts,
            self.statistics.snapshot(),
            self._conditions(),
        )
        self._diagnostics.publish(self._builder.diagnostics(self._header(), lines))

    # Helpers

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def _header(self) -> Header:
        return Header(stamp=self.get_clock().now().to_msg())

    def _in_executor(self, call: Callable[..., Any], *arguments: Any) -> None:
        executor = self.executor
        if executor is not None:
            executor.create_task(call, *arguments)
