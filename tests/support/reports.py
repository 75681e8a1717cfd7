"""Profiles to draw, without a device: networks of any number of kernels, with made-up times; and a
reader of pages."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from support.packages import sample_info, tensor
from tvm_vision.package import PackageInfo
from tvm_vision.report.floors import CALIBRATED, Ceilings
from tvm_vision.report.profile_document import profile_document
from tvm_vision.runtime.profiler import KernelProfile, ProfileReport, kernel_infos

CEILINGS = Ceilings(
    CALIBRATED, "calibrated for a test", 1e9, {"float32": 1e10, "float16": 2e10}, 1e-6
)
NASTY = '</script><script>alert("&")</script>'


def chain_info(count: int, name: str = "chain") -> dict[str, Any]:
    """mod.json of ``count`` kernels one after the other; each third reads the one before the last,
    too."""
    document = sample_info()
    sizes = [4, *([1024] * (count - 1)), 12]
    document["graph"] = {
        "storages": [4 * 4, *([4096] * (count - 1)), 12],
        "tensors": [
            tensor([4], 0),
            *(tensor([1024], 1 + i) for i in range(count - 1)),
            tensor([1, 3], count),
        ],
        "params": {},
        "inputs": [0],
        "outputs": [count],
        "kernels": [
            {
                "function": f"kernel_{i}",
                "args": [*([i - 1] if i % 3 == 2 else []), i, i + 1],
                "num_outputs": 1,
                "nodes": [f"Node_{i}", *(["Late"] if i == count - 1 else [])],
                "operations": 1000 * i,
            }
            for i in range(count)
        ],
    }
    assert len(sizes) == count + 1
    document["model"]["name"] = name
    return PackageInfo.from_json(document).to_json()


def made_up_profile(info: dict[str, Any]) -> ProfileReport:
    """Times that differ from kernel to kernel."""
    infos = kernel_infos(info["graph"])
    times = [3.0 + (37 * i) % 11 for i in range(len(infos))]
    kernels = tuple(
        KernelProfile(
            i, k.function, k.nodes, "vulkan0", t, t + 1, t / sum(times), k.bytes, k.operations
        )
        for i, (k, t) in enumerate(zip(infos, times, strict=True))
    )
    whole = sum(times)
    return ProfileReport(
        "vulkan0", f"vulkan(0): {NASTY}", 3, kernels, whole, whole - 1, 2.0, 1.0, whole + 9, 7.0
    )


def made_up_document(info: dict[str, Any], ceilings: Ceilings = CEILINGS) -> dict[str, Any]:
    """What the page is made of."""
    return profile_document(made_up_profile(info), info, ceilings)


class Page(HTMLParser):
    """What is in a page: elements, and the text of those that have an id.

    Attributes:
        elements: (tag, attributes), in order.
        texts: id -> all the text in it.
        open_at_end: tags that were never closed.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._stack: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        self.open_at_end = [tag for tag, _ in self._stack]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in ("meta", "link", "input", "br", "img"):
            self._stack.append((tag, found.get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._stack and self._stack[-1][0] == tag, (tag, self._stack[-3:])
        self._stack.pop()

    def handle_data(self, data: str) -> None:
        for _, name in self._stack:
            if name:
                self.texts[name] = self.texts.get(name, "") + data

    def document(self, name: str) -> Any:
        """A document that stands in the page."""
        return json.loads(self.texts[f"{name}-data"])

    def with_class(self, wanted: str) -> list[dict[str, str | None]]:
        """Attributes of the elements of a class."""
        return [a for _, a in self.elements if wanted in (a.get("class") or "").split()]
