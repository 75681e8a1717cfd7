"""The profile of Fast DDS that large images need; imports nothing of ROS, which reads it early."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROFILE = "FASTDDS_DEFAULT_PROFILES_FILE"
# What Fast DDS 2 calls it; Fast DDS 3 warns of that name.
FORMER_PROFILE = "FASTRTPS_DEFAULT_PROFILES_FILE"
FORMER_DISTRIBUTIONS = ("humble", "iron", "jazzy")


def profile_variables() -> tuple[str, ...]:
    """The environment variables that name a profile of Fast DDS, in this distribution of ROS.

    The last one is read by each Fast DDS that the distribution may have.
    """
    former = os.environ.get("ROS_DISTRO") in FORMER_DISTRIBUTIONS
    return (PROFILE, FORMER_PROFILE) if former else (PROFILE,)


def dds_profile() -> Path | None:
    """config/fastdds.xml as it was installed, or in the source tree."""
    here = Path(__file__).resolve().parent
    prefixes = [
        *(Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if prefix),
        Path(sys.prefix),
    ]
    shares = [prefix / "share" / "tvm_vision" for prefix in prefixes]
    for folder in (*shares, here.parent):
        path = folder / "config" / "fastdds.xml"
        if path.is_file():
            return path
    return None
