"""What the library warns of, in the node's log: /rosout is where a robot's owner looks."""

from __future__ import annotations

import logging
from typing import Any

LIBRARY = "tvm_vision"


class RosLog(logging.Handler):
    """Hands warnings and errors of Python's logging on to a logger of ROS."""

    def __init__(self, log: Any) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        # rclpy takes one severity from each line of code.
        if record.levelno >= logging.ERROR:
            self._log.error(record.getMessage())
        else:
            self._log.warning(record.getMessage())


def log_into(log: Any) -> None:
    """From now on, for as long as the process lives."""
    logging.getLogger(LIBRARY).addHandler(RosLog(log))
