"""requirements.lock, sbom.cdx.json and the list of dependencies say what pyproject.toml says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from packaging.requirements import Requirement

from scripts import lock

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def requirements(name: str) -> list[Requirement]:
    """Of a list in pyproject.toml; tomllib is not in Python 3.10."""
    found = re.search(rf"^{name} = \[\n(.*?)^\]", PYPROJECT, re.DOTALL | re.MULTILINE)
    assert found
    return [Requirement(text) for text in re.findall(r'^    "(.+)",$', found[1], re.MULTILINE)]


def test_what_is_asked_for_is_locked() -> None:
    locked = lock.locked()
    for group in ("dependencies", *lock.EXTRAS):
        for wanted in requirements(group):
            assert wanted.specifier.contains(locked[lock.canonical(wanted.name)]), wanted


def test_it_is_what_make_installs() -> None:
    pinned = re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
    versions = {lock.canonical(name): version for name, version in pinned}
    assert {name: versions.get(name) for name in lock.locked()} == lock.locked()


def test_each_has_hashes_and_no_place_it_came_from() -> None:
    entries = lock.LOCK.read_text("utf-8").split("\n")
    starts = [i for i, line in enumerate(entries) if "==" in line]
    assert len(starts) == len(lock.locked()) > 20
    assert all("--hash=sha256:" in entries[i + 1] for i in starts)
    assert "://" not in lock.LOCK.read_text("utf-8")


def test_the_bill_of_materials_has_the_same_with_licences() -> None:
    document = json.loads(lock.SBOM.read_text("utf-8"))
    assert document["bomFormat"] == "CycloneDX"
    found = {lock.canonical(part["name"]): part["version"] for part in document["components"]}
    # What only Python 3.10 asks for is not installed where it was made.
    assert found == {name: v for name, v in lock.locked().items() if name in found}
    assert set(lock.locked()) - set(found) <= {"tomli"}
    assert all(part.get("licenses") for part in document["components"])


def test_the_page_has_the_same() -> None:
    rows = re.findall(
        r"^\| ([\w-]+) \| (\d[\d.a-z]*) \| ([^?|\n]+) \|$",
        lock.PAGE.read_text("utf-8"),
        re.MULTILINE,
    )
    assert {name: version for name, version, _ in rows} == lock.locked()
