"""Whatever stands in mod.json or mod.params: it is read, or refused by a PackageError."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import packages
from tvm_vision.errors import PackageError
from tvm_vision.package import PackageInfo
from tvm_vision.package.params import list_params

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-2, 8)
    | st.floats()
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a JSON document, as a path of keys."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


PLACES = list(places(packages.sample_info()))


@settings(max_examples=400, deadline=None)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_anywhere(place, value):
    document = packages.sample_info()
    target = document
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    try:
        info = PackageInfo.from_bytes(json.dumps(document).encode(), edited=True)
    except PackageError as error:
        assert "\n" not in str(error)
    else:
        assert_safe(info.graph)


def assert_safe(graph):
    """No tensor reaches outside its storage, every id is one, every write is to free memory."""
    kept = {graph.tensors[i].storage for i in (*graph.inputs, *graph.params.values())}
    for tensor in graph.tensors:
        assert 0 <= tensor.offset
        assert tensor.offset + tensor.nbytes <= graph.storages[tensor.storage]
    for kernel in graph.kernels:
        assert all(0 <= i < len(graph.tensors) for i in kernel.args)
        assert not kept & {graph.tensors[i].storage for i in kernel.writes}


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_altered_weights(data):
    content = bytearray(packages.params_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        stored = list_params(io.BytesIO(bytes(content)))
    except PackageError as error:
        assert "\n" not in str(error)
    else:
        assert all(0 < tensor.offset <= len(content) for tensor in stored.values())


@pytest.mark.parametrize("length", range(0, len(packages.params_bytes()), 5))
def test_weights_cut_anywhere(length):
    with pytest.raises(PackageError, match=r"mod\.params cannot be read"):
        list_params(io.BytesIO(packages.params_bytes()[:length]))


@pytest.mark.parametrize("depth", [60, 100, 500, 100_000])
def test_a_target_of_any_depth(depth):
    """The one object of mod.json whose fields are TVM's own."""
    document = packages.sample_info()
    document["target"]["tag"] = "@"
    text = json.dumps(document).replace('"@"', "[" * depth + "]" * depth)
    if depth == 60:
        assert PackageInfo.from_bytes(text.encode(), edited=True).to_bytes()
        return
    with pytest.raises(PackageError, match="nested too deeply"):
        PackageInfo.from_bytes(text.encode(), edited=True)
