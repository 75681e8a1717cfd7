"""Charts: what stands in them stays apart, and inside."""

from __future__ import annotations

import math
import re

import pytest

from tvm_vision.report import charts
from tvm_vision.report.charts import Spot, scatter


@pytest.mark.parametrize(
    "x", [[1.0, 1.02, 1.04], [1.0, 1.0, 1.0], [0.2, 0.9, 0.97, 1.0], [1.0] * 9, [0.0, 0.0, 1.0]]
)
@pytest.mark.parametrize("before", ["llvm", "nuc vulkan --from_device 1"])
def test_names_lie_on_no_name_and_on_no_spot(x: list[float], before: str) -> None:
    drawn = scatter([Spot(at, 0.5, f"{before} O{i}", "", str(i)) for i, at in enumerate(x)],
                    "ms", "AP", "about")  # fmt: skip
    spots = [tuple(map(float, m)) for m in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    names = re.findall(r'class="start name" x="([\d.]+)" y="([\d.]+)">([^<]+)', drawn)
    boxes = [(float(a), float(b) - 4, float(a) + 7 * len(c)) for a, b, c in names]
    # A name that stands elsewhere than beside its spot is tied to it.
    moved = [abs(box[1] - spot[1]) >= 12 for box, spot in zip(boxes, spots, strict=True)]
    assert drawn.count('class="leader"') == sum(moved)
    for index, (begin, middle, end) in enumerate(boxes):
        assert begin >= 0 and end < charts.WIDTH and charts.TOP <= middle + 4 <= 360
        for at, height in spots:
            assert not (begin < at + 7 and at - 7 < end and abs(middle - height) < 11)
        for other in boxes[:index]:
            assert not (begin < other[2] and other[0] < end and abs(middle - other[1]) < 11)


def test_names_of_bars_that_do_not_fit_are_slanted_and_stay_within() -> None:
    name = "llvm -mcpu=x86-64-v2 fp32 O3 nhwc"
    few, many = (
        charts.bar_chart([charts.Bar(1.0, "", "", label=name)] * count, "MiB", "sizes")
        for count in (3, 17)
    )
    assert "rotate(" not in few and many.count("rotate(-50") == 17
    turned = float(re.findall(r'class="tick" x="([\d.]+)" y="[\d.]+" style', many)[0])
    height = float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', many)[0])
    length = charts.CHARACTER * len(name)
    assert turned > length * math.cos(charts.SLANT)
    assert height > charts.HEIGHT + length * math.sin(charts.SLANT) - 1
