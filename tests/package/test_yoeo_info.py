"""What a package says about a YOEO network: written and read again, refused where wrong."""

import copy

import pytest

from support.packages import sample_info
from tvm_vision.errors import PackageError
from tvm_vision.package import PackageInfo

# Of sample_info(), by the first version of the format.
PREPROCESSING = {
    "size": [1, 3],
    "letterbox": True,
    "crop": 1.0,
    "interpolation": "linear",
    "color_order": "rgb",
    "mean": [0.0, 0.0, 0.0],
    "std": [255.0, 255.0, 255.0],
}


def yoeo_info(**changes):
    """A mod.json whose output y, [1, 3], stands for whatever a test says about it."""
    document = copy.deepcopy(sample_info())
    yoeo = {
        "detections": "",
        "heads": [],
        "segmentation": "y",
        "segmentation_labels": ["field", "lines"],
        "groups": [],
    }
    document["model"].update(kind="yoeo", labels=[], preprocessing=PREPROCESSING, yoeo=yoeo)
    for name, value in changes.items():
        (yoeo if name in yoeo else document["model"])[name] = value
    return document


def with_shape(document, shape):
    """The same with another shape for y."""
    document["outputs"][0]["shape"] = shape
    tensors = document["graph"]["tensors"]
    tensors[5]["shape"] = shape
    return document


def with_heads(**changes):
    head = {"output": "y", "stride": 2, "anchors": [[10.0, 20.0]], **changes}
    document = yoeo_info(segmentation="", segmentation_labels=[], labels=["a"], heads=[head])
    document["model"]["preprocessing"] = {**PREPROCESSING, "size": [2, 2]}
    return document


def test_comes_back_as_it_was_written():
    # Any y will do that nobody checks the shape of: the mask is [1, height, width].
    document = yoeo_info()
    with pytest.raises(PackageError, match=r"segmentation must be of shape \[1, 1, 3\], found"):
        PackageInfo.from_json(document)
    info = PackageInfo.from_json(with_mask())
    assert info.to_json() == {**with_mask(), "checksum": info.checksum}
    assert PackageInfo.from_bytes(info.to_bytes()) == info


def with_mask(**changes):
    return with_shape(yoeo_info(**changes), [1, 1, 3])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_mask(segmentation="z"), r'segmentation must be the name of an output, found "z"'),
        (with_mask(segmentation_labels=[]), "segmentation_labels must be there for networks with"),
        (with_mask(labels=["ball"]), "model.labels must be there for networks with boxes and for"),
        (with_mask(kind="classifier"), "model.yoeo must be in networks of kind yoeo"),
        (with_mask(preprocessing=None), "model.yoeo must be in networks of kind yoeo"),
        (with_mask(detections=3), "model.yoeo.detections must be a text"),
        (with_mask(heads=[{}]), r"model.yoeo.heads\[0\].output is missing"),
        (yoeo_info(segmentation="", segmentation_labels=[]), "about detections, heads or a segm"),
        (
            yoeo_info(detections="y", labels=["a"]),
            r"as many as the classes of 'y'.*found \[\"a\"\]",
        ),
        (with_heads(), r"heads\[0\].output must be of shape \[1, 6, 1, 1\], found \[1, 3\]"),
        (with_heads(stride=0), "stride must be a whole number from 1"),
        (with_heads(anchors=[]), "anchors must be one anchor or more"),
        (with_heads(anchors=[[1.0]]), r"anchors\[0\] must be a width and a height"),
        (with_heads(anchors=[[1.0, 0.0]]), r"anchors\[0\] must be above 0"),
        (with_heads(color="red"), r"the field model.yoeo.heads\[0\].color is not known"),
    ],
)
def test_refuses(document, message):
    with pytest.raises(PackageError, match=message):
        PackageInfo.from_json(document)


def detecting(**changes):
    """Boxes of classes a, b, c: y is [1, 1, 8]."""
    plan = yoeo_info(
        detections="y", segmentation="", segmentation_labels=[], labels=["a", "b", "c"], **changes
    )
    tensors, storages = plan["graph"]["tensors"], plan["graph"]["storages"]
    for index in (3, 4):
        tensors[index]["shape"], storages[index] = [8], 32
    return with_shape(plan, [1, 1, 8])


def group(*classes):
    return {"surrogate": "s", "classes": list(classes)}


def test_groups():
    info = PackageInfo.from_json(detecting(groups=[group("a", "b")]))
    assert info.model.yoeo.groups[0].classes == ("a", "b")
    with pytest.raises(PackageError, match='groups must be of classes among a, b, c, found "d"'):
        PackageInfo.from_json(detecting(groups=[group("a", "d")]))
    with pytest.raises(PackageError, match="groups must be of classes that are in one group each"):
        PackageInfo.from_json(detecting(groups=[group("a", "b"), group("b", "c")]))


def test_names_that_are_not_as_many_or_the_same():
    document = detecting()
    document["model"]["labels"] = ["a", "b"]
    with pytest.raises(
        PackageError, match=r"'y' \(\[1, 1, 8\]: 5 \+ classes\), found \[\"a\", \"b"
    ):
        PackageInfo.from_json(document)
    document["model"]["labels"] = ["a", "b", "a"]
    with pytest.raises(PackageError, match="labels must be names that differ"):
        PackageInfo.from_json(document)


@pytest.mark.parametrize("version", [1, 3, 5, True, "4"])
def test_another_format_version(version):
    document = with_mask()
    document["format_version"] = version
    with pytest.raises(PackageError, match="reads packages of format version 4, found"):
        PackageInfo.from_json(document)
