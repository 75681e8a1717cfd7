"""Pages in headless Chromium, where there is one: a silent console, and what clicks do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.reports import CEILINGS, chain_info, made_up_document, made_up_profile
from tvm_vision.package import PackageInfo
from tvm_vision.report.compare import compare_profiles
from tvm_vision.report.evaluation_page import MEASURES, evaluation_page
from tvm_vision.report.profile_document import SavedProfile
from tvm_vision.report.profile_page import profile_page
from tvm_vision.report.show_page import package_page

BROWSER = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here: apt install chromium-headless-shell"
)
# Clicks, then what came of them as the title of the page, which is read from the DOM.
CLICKS = """
const head = document.querySelectorAll("#all-kernels th")[3];
const order = () => [...document.querySelectorAll("#all-kernels tbody tr")].map((r) => r.dataset.k);
const before = order();
head.querySelector("button").click();
const down = order();
head.querySelector("button").click();
const up = order();
document.querySelector("#all-kernels tbody tr").click();
const picked = [...document.querySelectorAll(".picked")].map((e) => e.tagName.toLowerCase());
const svg = document.querySelector("svg.graph");
const width = svg.width.baseVal.value;
document.querySelector('[data-zoom="in"]').click();
document.querySelector('[data-colours="by-change"]').click();
document.getElementById("theme").click();
const filter = document.querySelector("#table input.filter");
filter.value = "kernel_7"; filter.dispatchEvent(new Event("input"));
const found = { before, down, up, picked, zoomed: svg.width.baseVal.value / width,
  graph: svg.getAttribute("class"), theme: document.documentElement.dataset.theme,
  sort: head.getAttribute("aria-sort"), detail: document.getElementById("detail").textContent,
  left: [...document.querySelectorAll("#all-kernels tbody tr")].filter((r) => !r.hidden).length,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fetched: performance.getEntriesByType("resource").length };
document.body.dataset.found = JSON.stringify(found);
"""
# What every page has: sorting, a filter, two themes, and nothing that is wider than the window.
LOOKS = """
const table = document.querySelector("table:not(.matrix)");
table.querySelectorAll("th button")[1].click();
const filter = document.querySelector("input.filter");
filter.value = "fp16"; filter.dispatchEvent(new Event("input"));
document.getElementById("theme").click();
const found = { sort: table.querySelectorAll("th")[1].getAttribute("aria-sort"),
  left: [...table.querySelectorAll("tbody tr")].filter((r) => !r.hidden).length,
  theme: document.documentElement.dataset.theme,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fetched: performance.getEntriesByType("resource").length };
document.body.dataset.found = JSON.stringify(found);
"""


def visit(path: Path, width: int) -> tuple[dict[str, Any], list[str]]:
    """What ``CLICKS`` found, and what the console said."""
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            f"--user-data-dir={path.parent / f'user{width}'}", f"--window-size={width},900",
            "--dump-dom", path.as_uri(),
        ],
        text=True,
        capture_output=True,
        timeout=120,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    assert match, done.stderr[-2000:] + done.stdout[-2000:]
    return json.loads(match[1].replace("&quot;", '"')), said


@pytest.mark.parametrize(("count", "width"), [(12, 1280), (300, 500)])
def test_a_profile(tmp_path: Path, count: int, width: int) -> None:
    info = chain_info(count)
    report = made_up_profile(info)
    before = SavedProfile.of("before", report)
    changes = compare_profiles(report.kernels, before.kernels)
    text = profile_page(made_up_document(info), info, CEILINGS, changes, before)
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", f"<script>{CLICKS}</script></body>"), "utf-8")
    found, said = visit(path, width)
    assert said == []
    times = {str(k.index): k.median_us for k in report.kernels}
    assert found["before"] == list(times)
    assert [times[k] for k in found["down"]] == sorted(times.values(), reverse=True)
    assert [times[k] for k in found["up"]] == sorted(times.values())
    assert found["sort"] == "ascending"
    # Row, bar, point of the roofline, and box: unless it has no arithmetic.
    assert sorted(set(found["picked"])) == ["g", "tr"] and len(found["picked"]) >= 3
    assert f"#{found['up'][0]} kernel_{found['up'][0]}" in found["detail"]
    assert found["zoomed"] == pytest.approx(1.3, rel=0.01)
    assert found["graph"] == "graph by-change"
    assert found["theme"] in ("dark", "light")
    assert found["left"] == sum("7" == str(i)[:1] for i in range(count))
    assert found["wide"] == 0, "the page is wider than the window"
    assert found["fetched"] == 0


def variant(name: str, kind: str) -> dict[str, Any]:
    """A row of an evaluation, with made-up numbers."""
    scores: dict[str, Any] = dict.fromkeys(MEASURES[kind], 0.7) | {"classes": {"a": 0.6, "b": 0.8}}
    if kind == "classes":
        scores["confusion"] = [[3, 1, 0], [0, 4, 0]]
    return {
        "name": name, "images": 8, "scores": scores, "latency_ms": {"median": 4.0, "p95": 6.0},
        "package_bytes": 9_000_000, "memory_bytes": None, "device": "vulkan(0): a GPU",
        "warnings": ["Conv_12: float16 overflows"],
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["classes", "boxes", "masks", "package"])
def test_other_pages_open_without_a_word(tmp_path: Path, kind: str) -> None:
    if kind == "package":
        text = package_page(PackageInfo.from_json(chain_info(20)))
    else:
        rows = [variant(name, kind) for name in ("llvm fp16 O3", "nuc: llvm -mcpu=x86-64-v3 fp32")]
        rows.append({"name": "vulkan int8 O3", "error": "images are needed, found none"})
        text = evaluation_page(rows, kind, ["a", "b"], "Evaluation")
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", f"<script>{LOOKS}</script></body>"), "utf-8")
    found, said = visit(path, 700)
    assert said == []
    assert found["sort"] in ("ascending", "descending") and found["theme"] in ("dark", "light")
    assert found["left"] == (0 if kind == "package" else 1)
    assert found["wide"] == 0 and found["fetched"] == 0
