"""The page of a profile: what is in it, without a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.reports import CEILINGS, NASTY, Page, chain_info, made_up_document, made_up_profile
from tvm_vision.package import PlannedGraph
from tvm_vision.report.compare import compare_profiles
from tvm_vision.report.drawing import Box
from tvm_vision.report.floors import UNKNOWN, Ceilings
from tvm_vision.report.network_graph import kernel_drawing
from tvm_vision.report.profile_document import SavedKernel, SavedProfile
from tvm_vision.report.profile_page import profile_page

COUNT = 12


@pytest.fixture(scope="module")
def info() -> dict[str, Any]:
    return chain_info(COUNT, NASTY)


@pytest.fixture(scope="module")
def page(info: dict[str, Any]) -> Page:
    return Page(profile_page(made_up_document(info), info, CEILINGS))


def test_the_profile_stands_in_it(info: dict[str, Any], page: Page) -> None:
    assert page.open_at_end == []
    document = page.document("profile")
    assert document == json.loads(json.dumps(made_up_document(info)))
    assert document["network"] == NASTY and document["format"] == "tvm_vision profile"
    assert [k["flagged"] for k in document["kernels"]] == [
        k["median_us"] > 4 * k["floor_us"] for k in document["kernels"]
    ]


def test_each_kernel_is_in_each_picture(page: Page) -> None:
    keys = {str(i) for i in range(COUNT)}
    for kind in ("box", "bar"):
        assert {a["data-k"] for a in page.with_class(kind) if "data-k" in a} == keys
    # A kernel without arithmetic has no place in the roofline.
    assert {a["data-k"] for a in page.with_class("point")} == keys - {"0"}
    rows = [a["data-k"] for tag, a in page.elements if tag == "tr" and "data-k" in a]
    assert rows == [str(i) for i in range(COUNT)]
    boxes = [a["class"] for a in page.with_class("box")]
    assert all(re.search(r"\bh[0-6]\b|\bend\b", str(marks)) for marks in boxes)


def test_nothing_is_fetched_and_nothing_runs_that_is_data(page: Page) -> None:
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(names) == len(set(names))
    scripts = [a for tag, a in page.elements if tag == "script"]
    assert len(scripts) == 2 and "src" not in scripts[-1]
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:")), (tag, name, value)
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv"))
    assert str(policy).startswith("default-src 'none';")


@pytest.mark.parametrize("count", [1, 300])
def test_networks_of_any_size(count: int) -> None:
    info = chain_info(count)
    found = Page(profile_page(made_up_document(info), info, CEILINGS))
    assert len([a for a in found.with_class("box") if "data-k" in a]) == count


def test_without_ceilings_there_are_no_floors(info: dict[str, Any]) -> None:
    unknown = Ceilings(UNKNOWN, "unknown: for a test")
    found = Page(profile_page(made_up_document(info, unknown), info, unknown))
    assert found.with_class("roof") == [] == found.with_class("floor")
    assert found.with_class("point")
    heads = [a for tag, a in found.elements if tag == "th"]
    assert len(heads) == 8
    assert "unknown: for a test" in found.texts["roofline"]


def test_packages_without_counts_say_so(info: dict[str, Any]) -> None:
    document = made_up_document(info)
    for kernel in document["kernels"]:
        kernel["operations"] = None
    assert (
        "compile the network again"
        in Page(profile_page(document, info, CEILINGS)).texts["roofline"]
    )


def test_what_changed(info: dict[str, Any]) -> None:
    report = made_up_profile(info)
    kernels = [SavedKernel(k.function, k.nodes, k.median_us) for k in report.kernels]
    kernels[3] = SavedKernel("other", kernels[3].nodes, 1.0)
    kernels[4] = SavedKernel("other", kernels[4].nodes, 99.0)
    before = SavedProfile("before.json", "another device", tuple(kernels), 80.0)
    changes = compare_profiles(report.kernels, before.kernels)
    found = Page(profile_page(made_up_document(info), info, CEILINGS, changes, before))
    assert [c["verdict"] for c in found.document("changes")["changes"][:2]] == ["faster", "slower"]
    boxes = {a["data-k"]: str(a["class"]) for a in found.with_class("box") if "data-k" in a}
    assert "slower" in boxes["3"] and "faster" in boxes["4"] and "same" in boxes["5"]


def test_edges_follow_memory() -> None:
    """Two kernels write halves of what a third reads whole; a fourth takes their place."""
    whole = {"shape": [128], "dtype": "float32", "storage": 1, "offset": 0}
    halves = [
        {"shape": [64], "dtype": "float32", "storage": 1, "offset": offset} for offset in (0, 256)
    ]
    graph = PlannedGraph.from_json(
        {
            "storages": [512, 512, 512],
            "tensors": [
                {"shape": [128], "dtype": "float32", "storage": 0, "offset": 0},
                *halves,
                whole,
                {"shape": [128], "dtype": "float32", "storage": 2, "offset": 0},
            ],
            "params": {},
            "inputs": [0],
            "outputs": [4],
            "kernels": [
                {"function": name, "args": args, "num_outputs": 1, "nodes": []}
                for name, args in (
                    ("a", [0, 1]), ("b", [0, 2]), ("c", [3, 4]), ("d", [4, 1]), ("e", [3, 4])
                )
            ],
        }
    )  # fmt: skip
    drawing = kernel_drawing(graph, ["x"], ["y"], lambda i: Box(graph.kernels[i].function))
    titles = [box.title for box in drawing.boxes]
    edges = {titles[e.source] + titles[e.target] for e in drawing.edges}
    assert edges == {"xa", "xb", "ac", "bc", "cd", "de", "be", "ey"}
