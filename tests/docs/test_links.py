"""Links in the documents lead somewhere, and every page of docs/ is reached from its index."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "examples/*.md",
        *(f"{folder}/**/*.md" for folder in ("docs", "benchmarks", ".github")),
    )
    for path in ROOT.glob(pattern)
)
# Beside links, sources and documents name documents by their path.
_ROOMS = (
    "docs|benchmarks|examples|scripts|tests|tools|training|tvm_vision|ros2_node|config|launch|cpp"
)
NAMED = re.compile(rf"(?<![\w./-])((?:{_ROOMS})/[\w./-]+\.(?:md|py))\b")


def prose(text: str) -> str:
    """A document without its blocks of code, whose brackets are no links."""
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of each link to a file of ours, images included."""
    text = re.sub(r"`[^`\n]*`", "", prose(page.read_text("utf-8")))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as they are made where it is shown, and those that it sets itself."""
    text = page.read_text("utf-8")
    found = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{path} leads out of the repository"
        assert target.exists(), f"{path} is not there"
        if anchor:
            assert target.suffix == ".md" and anchor in anchors(target), f"{path} has no #{anchor}"


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = {INDEX}, [INDEX]
    while waiting:
        page = waiting.pop()
        for path, _ in links(page):
            target = (page.parent / path).resolve() if path else page
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert set((ROOT / "docs").rglob("*.md")) <= reached


def test_files_that_sources_name_are_there() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("a checkout is needed for the list of files")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".h", ".cc", ".yaml", ".cfg", ".toml") and path.is_file():
            for named in NAMED.findall(path.read_text("utf-8")):
                assert (ROOT / named).exists(), f"{name} names {named}, which is not there"


def test_headings_become_anchors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Where a frame's time goes\n```\n# no heading\n```\n## `a_b` [c](d): e\n")
    assert anchors(page) == {"where-a-frames-time-goes", "a_b-c-e"}
