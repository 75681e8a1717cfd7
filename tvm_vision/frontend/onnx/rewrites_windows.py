"""Rewrites of operators that look at an image through windows, or put windows back into one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import onnx

from ...topi.deformed_taps import TapForm
from ...topi.placed_max import PoolForm
from .graph import (
    GraphEditor,
    NodeBuilder,
    Rewrite,
    Unsupported,
    attribute,
    attributes,
    constant_input,
    given,
    with_attributes,
)
from .own_operators import BORDERS, DEFORMED_TAPS, MODES, PLACED_MAX

Nodes = Sequence[onnx.NodeProto] | None
# Axes of an image that the target's transposed convolutions know.
MOST_AXES = 3
STEPS = ("strides", "dilations")


def check_window(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """None. Raises Unsupported for a window whose places lie in the wrong direction, for pads of
    less than nothing, and for a pool's that may lie in its pads alone."""
    for name in ("strides", "dilations", "kernel_shape"):
        given = attribute(node, name, [1])
        if min(given) < 1:
            raise Unsupported(f"{name} of {list(given)}", "use numbers of at least 1")
    pads, kernel = attribute(node, "pads", []), attribute(node, "kernel_shape", [])
    # Convolutions cut the image by those; engines do not agree on the others.
    if node.op_type != "Conv" and min(pads, default=0) < 0:
        raise Unsupported(
            f"pads of {list(pads)}", "use numbers of at least 0, and a Slice or Pad beside it"
        )
    if node.op_type.endswith("Pool") and any(
        pad >= size for pad, size in zip(pads, kernel * 2, strict=False)
    ):
        raise Unsupported(
            f"pads of {list(pads)} around windows of {list(kernel)}",
            "use pads that are smaller than the window, and Pad before it for others",
        )
    return None


def col2im(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Windows added up where they lie in the image: a transposed convolution with weights of 1, or
    no more than another order of the numbers where windows lie side by side."""
    given = [constant_input(node, graph, index) for index in (1, 2)]
    image, block = ([int(size) for size in sizes] for sizes in given if sizes is not None)
    axes = len(block)
    dilations, strides = (attribute(node, name, [1] * axes) for name in ("dilations", "strides"))
    pads = attribute(node, "pads", [0] * 2 * axes)
    batch, rows, count = graph.shape(node.input[0])
    covered = [(size - 1) * dilation + 1 for size, dilation in zip(block, dilations, strict=True)]
    windows = [
        (image[i] + pads[i] + pads[i + axes] - covered[i]) // strides[i] + 1 for i in range(axes)
    ]
    if math.prod(windows) != count or rows % math.prod(block):
        raise Unsupported(
            f"{rows} rows of {count} windows, and its sizes make {math.prod(windows)} windows of "
            f"{math.prod(block)}",
            "correct its sizes",
        )
    steps = NodeBuilder(graph, node)
    channels = rows // math.prod(block)
    tiles = list(strides) == block and not any(pads) and not any(d != 1 for d in dilations)
    if tiles and image == [count * size for count, size in zip(windows, block, strict=True)]:
        laid = steps.reshape(node.input[0], (batch, channels, *block, *windows))
        places = [(2 + axes + i, 2 + i) for i in range(axes)]
        order = [0, 1, *itertools.chain.from_iterable(places)]
        laid = steps("Transpose", laid, perm=order)
        return steps.finish(steps.reshape(laid, (batch, channels, *image)))
    if axes > MOST_AXES:
        raise Unsupported(f"windows of {axes} axes that overlap", "use at most 3 axes")
    ones = np.eye(math.prod(block), dtype=graph.dtype(node.input[0]))
    weight = np.tile(ones.reshape(-1, 1, *block), (channels, *[1] * (axes + 1)))
    beyond = [
        image[i] - (strides[i] * (windows[i] - 1) + covered[i] - pads[i] - pads[i + axes])
        for i in range(axes)
    ]
    added = steps(
        "ConvTranspose",
        steps.reshape(node.input[0], (batch, rows, *windows)),
        weight,
        group=channels,
        kernel_shape=block,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=beyond,
    )
    return steps.finish(added)


def average_pool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """AveragePool of dilated windows whose places are counted here: TVM counts those that lie near
    an end wrongly.

    What ceil_mode adds behind pads that count does not count, as ONNX has it, and onnxruntime from
    opset 19 on.
    """
    check_window(node, graph)
    if not any(dilation != 1 for dilation in attribute(node, "dilations", [])):
        return _with_pads(node, graph)
    node = _narrowed(node, graph)
    before, behind = _pads(node, graph)
    steps, kernel = NodeBuilder(graph, node), attribute(node, "kernel_shape")
    value, pads = _cropped(steps, node.input[0], before, behind)
    options = attributes(node, "kernel_shape strides dilations")
    mean = steps("AveragePool", value, pads=pads, count_include_pad=1, **options)
    shares = math.prod(kernel) / _counts(node, graph)
    return steps.finish(steps("Mul", mean, shares.astype(graph.dtype(node.input[0]))))


def lp_pool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """LpPool, the root of the sum of powers, by the mean of the whole window with zeros outside:
    TVM multiplies the mean of what lies inside by the size of the window.

    Of float16 in float32, which has its powers, and the exponents of its roots.
    """
    check_window(node, graph)
    node = _narrowed(node, graph)
    steps, given = NodeBuilder(graph, node), graph.dtype(node.input[0])
    dtype = np.dtype(np.float32) if given == np.float16 else given
    power, kernel = attribute(node, "p", 2), attribute(node, "kernel_shape")
    value, pads = _cropped(steps, node.input[0], *_pads(node, graph))
    value = steps("Abs", value if given == dtype else steps.cast(value, dtype))
    if power != 1:
        value = steps("Pow", value, np.array(power, dtype))
    options = {**attributes(node, "kernel_shape strides dilations"), "pads": pads}
    if any(dilation != 1 for dilation in options.get("dilations", [])):
        # ONNX dilates means from opset 19 on only.
        channels = graph.shape(node.input[0])[1]
        value = steps(
            "Conv", value, np.ones((channels, 1, *kernel), dtype), group=channels, **options
        )
    else:
        options.pop("dilations", None)
        value = steps("AveragePool", value, count_include_pad=1, **options)
        value = steps("Mul", value, np.array(math.prod(kernel), dtype))
    root = value if power == 1 else steps("Pow", value, np.array(1 / power, dtype))
    return steps.finish(root if given == dtype else steps.cast(root, given))


def _counts(node: onnx.NodeProto, graph: GraphEditor) -> np.ndarray:
    """How many places of each window of a mean count, (1, 1, sizes of the result)."""
    kernel, shape = attribute(node, "kernel_shape"), graph.shape(node.input[0])[2:]
    strides, dilations = (attribute(node, name, [1] * len(kernel)) for name in STEPS)
    before, behind = _pads(node, graph)
    counted = [0] * 2 * len(kernel)
    if attribute(node, "count_include_pad", 0):
        counted = before + behind if _same(node) else attribute(node, "pads", counted)
    counts = np.ones((1, 1), np.int64)
    for i, number in enumerate(_windows(node, shape)):
        starts = np.arange(number) * strides[i] - before[i]
        places = starts[:, None] + np.arange(kernel[i]) * dilations[i]
        inside = (places >= -counted[i]) & (places < shape[i] + counted[i + len(kernel)])
        counts = counts[..., None] * inside.sum(axis=1)
    return counts


def max_pool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """MaxPool that also tells where its results came from as an operator of our own: TVM has the
    values alone."""
    check_window(node, graph)
    if len(node.output) < 2 or not node.output[1]:
        return _with_pads(node, graph)
    node = _narrowed(node, graph)
    shape, kernel = graph.shape(node.input[0]), attribute(node, "kernel_shape")
    ones = [1] * len(kernel)
    strides, dilations = (attribute(node, name, ones) for name in STEPS)
    form = PoolForm(
        kernel, strides, dilations, _pads(node, graph)[0], _windows(node, shape[2:]),
        bool(attribute(node, "storage_order", 0)),
    )  # fmt: skip
    steps = NodeBuilder(graph, node)
    where = graph.fresh(f"{node.output[1]}/{PLACED_MAX}")
    best = steps(PLACED_MAX, node.input[0], form=form.to_json())
    steps.nodes[-1].output.append(where)
    # Places count through the whole tensor.
    planes = np.arange(shape[0] * shape[1], dtype=np.int64) * math.prod(shape[2:])
    total = steps("Add", where, planes.reshape(*shape[:2], *ones))
    steps.finish(best)
    return steps.finish(total, 1)


def conv(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Conv whose pads follow from its image, with these said: TVM's importer puts zeros around the
    image before it, which is an operator by itself."""
    check_window(node, graph)
    if not _same(node):
        return None
    try:
        graph.shape(node.input[0])
        kernel = attribute(node, "kernel_shape") or list(graph.shape(node.input[1])[2:])
    except Unsupported:  # what an image of open size needs is not known
        return None
    dilations = attribute(node, "dilations", [1] * len(kernel))
    if any(d != 1 < k for d, k in zip(dilations, kernel, strict=True)):
        return None
    same = with_attributes(node, kernel_shape=kernel)
    before, behind = _pads(same, graph)
    # Unlike a pool's its first window never begins inside.
    return [with_attributes(same, "auto_pad", pads=[max(size, 0) for size in before + behind])]


def _same(node: onnx.NodeProto) -> bool:
    """Whether the pads of a node follow from its image."""
    return str(attribute(node, "auto_pad", "")).startswith("SAME")


def _with_pads(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A pool whose pads follow from its image with these said, which TVM finds in another way than
    onnxruntime, and none with a window beyond its image; None for one that may stay."""
    narrowed = _narrowed(node, graph)
    if not _same(node):
        return None if narrowed is node else [narrowed]
    steps = NodeBuilder(graph, node)
    value, pads = _cropped(steps, node.input[0], *_pads(narrowed, graph))
    pool = with_attributes(narrowed, "auto_pad", "ceil_mode", pads=pads)
    pool.input[0] = value
    return [*steps.nodes, pool]


def _narrowed(node: onnx.NodeProto, graph: GraphEditor) -> onnx.NodeProto:
    """A pool with windows that end where its image and pads do, along axes of one window, and with
    steps that go no further.

    A pool over all pixels may say a window of any size, and each of its places would be visited:
    EfficientNet-B7 of Transformers has 2560×2560 over 7×7 pixels. Steps as large make as much of
    an end that is rounded up (``ceil_mode``): TVM pads by a step.
    """
    try:
        shape = graph.shape(node.input[0])[2:]
    except Unsupported:  # of open size, where nothing is known to be beyond it
        return node
    kernel, count = list(attribute(node, "kernel_shape")), len(shape)
    strides = list(attribute(node, "strides", [1] * count))
    if _same(node) and attribute(node, "count_include_pad", 0):
        return node
    pads = [0] * 2 * count if _same(node) else attribute(node, "pads", [0] * 2 * count)
    dilations = attribute(node, "dilations", [1] * count)
    for i, number in enumerate(_windows(node, shape)):
        if number == 1 and dilations[i] == 1:
            whole = shape[i] + pads[i] + pads[i + count]
            kernel[i], strides[i] = min(kernel[i], whole), min(strides[i], whole)
    if kernel == attribute(node, "kernel_shape") and strides == attribute(node, "strides", strides):
        return node
    return with_attributes(node, kernel_shape=kernel, strides=strides)


def _cropped(
    steps: NodeBuilder, value: str, before: list[int], behind: list[int]
) -> tuple[str, list[int]]:
    """An image without what lies before its first window, and the pads of what is left."""
    for axis, size in enumerate(before, 2):
        if size < 0:
            value = steps.part(value, -size, steps.graph.shape(steps.node.input[0])[axis], axis)
    return value, [max(size, 0) for size in before + behind]


def _windows(node: onnx.NodeProto, shape: Sequence[int]) -> list[int]:
    """How many windows a pool has along each axis of an image. ONNX's own inference before opset 22
    has those that begin behind the image, too."""
    kernel, count = attribute(node, "kernel_shape"), len(shape)
    strides, dilations = (attribute(node, name, [1] * count) for name in STEPS)
    if _same(node):
        return [-(-size // stride) for size, stride in zip(shape, strides, strict=True)]
    pads = attribute(node, "pads", [0] * 2 * count)
    found = []
    for i, size in enumerate(shape):
        free = size + pads[i] + pads[i + count] - (kernel[i] - 1) * dilations[i] - 1
        number = free // strides[i] + 1
        if attribute(node, "ceil_mode", 0) and free % strides[i]:
            number += number * strides[i] < size + pads[i]
        found.append(number)
    return found


def _pads(node: onnx.NodeProto, graph: GraphEditor) -> tuple[list[int], list[int]]:
    """Pads before and behind each axis of an image, the latter so large that all windows fit. Those
    before are negative where the first window begins inside."""
    shape = graph.shape(node.input[0])[2:]
    after, kernel, count = _windows(node, shape), attribute(node, "kernel_shape"), len(shape)
    strides, dilations = (attribute(node, name, [1] * count) for name in STEPS)
    covered = [
        (after[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(count)
    ]
    before = list(attribute(node, "pads", [0] * 2 * count)[:count])
    if _same(node):
        rule = attribute(node, "auto_pad")
        if any(d != 1 < k for d, k in zip(dilations, kernel, strict=True)):
            raise Unsupported(
                f"auto_pad {rule} of dilated windows, which ONNX and onnxruntime read in different "
                "ways",
                "export it with pads",
            )
        missing = [c - s for c, s in zip(covered, shape, strict=True)]
        # Halves toward zero, as onnxruntime has them.
        before = [int((m + (rule == "SAME_LOWER")) / 2) for m in missing]
    behind = [max(c - s - b, 0) for c, s, b in zip(covered, shape, before, strict=True)]
    return before, behind


def max_unpool(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Values put where MaxPool took them from; TVM mixes up the pads of two axes."""
    shape = graph.shape(node.input[0])
    kernel = attribute(node, "kernel_shape")
    count = len(kernel)
    strides = attribute(node, "strides", [1] * count)
    pads = attribute(node, "pads", [0] * 2 * count)
    sizes = [
        (shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + count]
        for i in range(count)
    ]
    after, wanted = [*shape[:2], *sizes], constant_input(node, graph, 2)
    if wanted is not None and list(wanted) != after:
        raise Unsupported(
            "an output_shape that does not follow from the window, which ONNX and onnxruntime read "
            "in different ways",
            "leave it out, and put a Pad behind the node",
        )
    steps, dtype = NodeBuilder(graph, node), graph.dtype(node.input[0])
    zero = onnx.numpy_helper.from_array(np.zeros(1, dtype))
    empty = steps("ConstantOfShape", np.array([math.prod(after)], np.int64), value=zero)
    flat = [steps.reshape(name, (-1,)) for name in (node.input[1], node.input[0])]
    return steps.finish(steps.reshape(steps("ScatterElements", empty, *flat, axis=0), after))


def deform_conv(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """A convolution whose taps are moved by offsets: what the image has at each tap of each place,
    then a convolution of one pixel. Formulas of ONNX's DeformConv-22."""
    shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
    if len(shape) != 4:
        raise Unsupported(f"an input of rank {len(shape)}", "use images, of rank 4")
    kernel, (strides, dilations) = weight[2:], (attribute(node, name, [1, 1]) for name in STEPS)
    pads, parts = attribute(node, "pads", [0] * 4), attribute(node, "offset_group", 1)
    form = TapForm(kernel, strides, dilations, pads[:2], parts)
    factors = [node.input[4]] if len(node.input) > 4 and node.input[4] else []
    steps = NodeBuilder(graph, node)
    taps = steps(DEFORMED_TAPS, node.input[0], node.input[2], *factors, form=form.to_json())
    flat = steps.reshape(node.input[1], (weight[0], weight[1] * math.prod(kernel), 1, 1))
    bias = [node.input[3]] if len(node.input) > 3 and node.input[3] else []
    groups = attribute(node, "group", 1)
    return steps.finish(steps("Conv", taps, flat, *bias, group=groups, kernel_shape=[1, 1]))


def pad(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Elements around a tensor by one operator in all modes. More of its own than an axis has, and
    some taken away before, are what lies at those places; a number that is computed is chosen where
    the padding is."""
    mode = attribute(node, "mode", "constant")
    if mode not in MODES:
        return None
    steps, sides = NodeBuilder(graph, node), _sides(node, graph)
    if not any(map(any, sides)):
        return steps.finish(steps("Identity", node.input[0]))
    if mode == "constant":
        return steps.finish(_with_number(node, graph, steps, sides))
    shape, found = graph.shape(node.input[0]), node.input[0]
    kept = [
        (max(-before, 0), size - max(-after, 0))
        for size, (before, after) in zip(shape, sides, strict=True)
    ]
    if any(end <= start for start, end in kept):
        return None
    if all(_at_once(mode, size, side) for size, side in zip(shape, sides, strict=True)):
        return steps.finish(_bordered(steps, found, sides, mode))
    for axis, ((start, end), side) in enumerate(zip(kept, sides, strict=True)):
        if any(side):
            added = [max(number, 0) for number in side]
            places = np.pad(np.arange(start, end), added, mode=mode)
            found = steps("Gather", found, places, axis=axis)
    return steps.finish(found)


def _at_once(mode: str, size: int, side: tuple[int, int]) -> bool:
    """Whether each element that is added along an axis is one that an operator finds, and none is
    taken away."""
    most = {"reflect": size - 1, "wrap": size}.get(mode, max(side))
    return min(side) >= 0 and max(side) <= most


def _bordered(
    steps: NodeBuilder, value: str, sides: list[tuple[int, int]], mode: str, number: float = 0
) -> str:
    widths = list(itertools.chain.from_iterable(sides))
    return steps(BORDERS, value, widths=widths, mode=mode, value=number)


def _with_number(
    node: onnx.NodeProto, graph: GraphEditor, steps: NodeBuilder, sides: list[tuple[int, int]]
) -> str:
    """What a Pad with a number gives: its input 2, which may be computed, or its attribute."""
    value, number = given(node, 2), attribute(node, "value", 0.0)
    known = graph.constant(value) if value else np.array(number)
    if known is not None:
        return _bordered(steps, node.input[0], sides, "constant", known.item())
    padded, shape = _bordered(steps, node.input[0], sides, "constant"), graph.shape(node.input[0])
    # Where nothing is added along an axis, all its places are alike.
    sizes = [size + sum(side) if any(side) else 1 for size, side in zip(shape, sides, strict=True)]
    is_padding = np.ones(sizes, bool)
    inner = [
        slice(max(first, 0), size - max(last, 0))
        for size, (first, last) in zip(sizes, sides, strict=True)
    ]
    is_padding[tuple(inner)] = False
    return steps("Where", is_padding, value, padded)


def _sides(node: onnx.NodeProto, graph: GraphEditor) -> list[tuple[int, int]]:
    """How many elements a Pad adds before and behind each axis."""
    widths = attribute(node, "pads")
    if widths is None:
        values = constant_input(node, graph, 1)
        widths = [] if values is None else [int(number) for number in values]
    half = len(widths) // 2
    sides = list(zip(widths[:half], widths[half:], strict=True))
    named = constant_input(node, graph, 3)
    if named is None:
        return sides
    rank = len(graph.shape(node.input[0]))
    found = dict.fromkeys(range(rank), (0, 0))
    found |= dict(zip((int(axis) % rank for axis in named), sides, strict=True))
    return list(found.values())


WINDOW_REWRITES: dict[str, Rewrite] = {
    "AveragePool": average_pool,
    "Col2Im": col2im,
    "Conv": conv,
    "DeformConv": deform_conv,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "Pad": pad,
}
