"""What a check found, and the machine that it looked at. A leaf."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..plain_files import read_plain

OK, WARN, FAIL = "ok", "warn", "fail"
STATES = (OK, WARN, FAIL)
# Bytes of a file of the kernel's, or of a driver's description.
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, and what mends it.

    name: of what was looked at. state: "ok", "warn" (works, but something is to be had), "fail"
    (does not work). words: what was found. remedy: what to do; only "ok" has none.

    Raises ValueError for another state, and where there is something wrong without a remedy.
    """

    name: str
    state: str
    words: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"expected a state of {', '.join(STATES)}, got '{self.state}'")
        if (self.state == OK) == bool(self.remedy):
            raise ValueError(f"expected a remedy where something is wrong, got '{self.remedy}'")

    @classmethod
    def of_message(cls, name: str, state: str, message: object) -> Finding:
        """Of a message of ours, which says first what was found and then what to do."""
        text = " ".join(str(message).split())
        for sign in ("; ", ": "):
            words, found, remedy = text.partition(sign) if sign == "; " else text.rpartition(sign)
            if found:
                return cls(name, state, words, remedy)
        return cls(name, state, text, "see docs/guides/devices.md")

    def as_json(self) -> dict[str, str]:
        """Plain data; without a remedy where there is none."""
        return {key: value for key, value in asdict(self).items() if value}


def worst(findings: Iterable[Finding]) -> str:
    """The worst state among findings; "ok" of none."""
    return max((finding.state for finding in findings), key=STATES.index, default=OK)


@dataclass(frozen=True)
class Machine:
    """What is looked at: files below ``root``, variables, and what this process may do.

    root: of /sys, /dev, /proc, /etc and /usr; another one than "/" is a test's or a container's.
    may: whether this process may use a file in a way, as os.access says.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    may: Callable[[Path, int], bool] = os.access

    def path(self, path: str) -> Path:
        """A path of the machine, as "/sys/class/drm", where it is found from here."""
        return self.root / path.lstrip("/")

    def glob(self, pattern: str) -> list[Path]:
        """Files and folders of the machine by a pattern, in order; none where nothing fits."""
        return sorted(self.root.glob(pattern.lstrip("/")))

    def name(self, path: Path) -> str:
        """How the machine itself calls a path that was found."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)


def read(path: Path) -> str:
    """The text of a small file without the spaces around it; "" where it cannot be read."""
    try:
        return read_plain(path, MOST_BYTES).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""


def number(path: Path) -> int | None:
    """The whole number in a file of the kernel's; None where there is none."""
    text = read(path)
    return int(text) if text.removeprefix("-").isdecimal() else None
