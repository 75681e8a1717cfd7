"""Hosted CI, pre-commit and the templates do what make and .ci/run do, and are well formed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.scripts import load_script

COMPILERS = load_script("scripts/wheel.py").COMPILERS
ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_hosted_ci_takes_the_steps_of_ci_run_on_every_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    job = workflow["jobs"]["run"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    needed = re.search(r'python_requires=">=3\.(\d+),<3\.(\d+)"', (ROOT / "setup.py").read_text())
    assert needed is not None
    pythons = [f"3.{minor}" for minor in range(int(needed[1]), int(needed[2]))]
    assert job["strategy"]["matrix"]["python"] == pythons


def test_hosted_ci_builds_every_wheel_as_make_does() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    job = workflow["jobs"]["wheel"]
    assert "make wheel HOST=${{ matrix.host }}" in [step.get("run") for step in job["steps"]]
    assert job["strategy"]["matrix"]["host"] == sorted(COMPILERS, reverse=True)


def test_pre_commit_runs_the_tools_of_make_lint() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    hooks = repository["hooks"]
    assert all(hook["language"] == "system" for hook in hooks)
    lint = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    called = [line.split("$(BIN)/")[1].split() for line in lint.splitlines() if "$(BIN)/" in line]

    def tool(words: list[str]) -> tuple[str, ...]:
        """Name and subcommand, without options and files."""
        return tuple(word for word in words[:2] if re.fullmatch(r"[a-z-]*[a-z]", word))

    ours = [tool(hook["entry"].removeprefix(".venv/bin/").split()) for hook in hooks]
    assert ours == [tool(words) for words in called]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_well_formed(path: Path) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.stem == "config":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert form["name"] and form["description"]
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert ids and len(ids) == len(set(ids))
    assert all(item["attributes"].get("label") for item in form["body"] if "id" in item)


def test_the_source_distribution_has_all_documents(tmp_path):
    """Also the tests, examples and whatever else they refer to."""
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    listed = set((tmp_path / "tvm_vision.egg-info" / "SOURCES.txt").read_text().splitlines())
    for folder in ("docs", "examples", "tests", "scripts", "benchmarks", "tvm_vision", "tools"):
        files = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix not in (".so", ".pyc")
        }
        assert files, folder
        assert files <= listed, sorted(files - listed)
    assert {"README.md", "CHANGELOG.md", "LICENSE", "constraints.txt", "Makefile"} <= listed
