"""The list of system packages that a fresh machine needs: one bad line, and none is installed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "system_packages.sh"


def test_each_need_is_a_package_its_reason_and_a_check() -> None:
    text = SCRIPT.read_text("utf-8")
    checks = set(re.findall(r"^(has_\w+)\(\)", text, re.M))
    needs = re.findall(r"^need (.*)", text.replace("\\\n", " "), re.M)
    assert len(needs) >= 6
    for need in needs:
        which, package, reason, check, *_ = shlex.split(need)
        assert which in ("required", "optional"), need
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", package), need
        assert " " in reason and check in checks, need
