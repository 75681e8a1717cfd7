"""What a .cfg file says, and one line for each way to say it wrong."""

import pytest

from support.yoeo_cfgs import CFGS, LEAKY, MISH
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.exporters.yoeo.layers import Convolution, MaxPool, Route, Shortcut, YoloHead

NET = "[net]\nwidth=64\nheight=64\n"
CONV = "[convolutional]\nfilters=16\nsize=3\nstride=2\nactivation=leaky\n"
SEG = "[upsample]\nstride=2\n[seg]\nclasses=16\n"
YOLO = "[yolo]\nmask=0,1\nanchors=1,2,3,4\nclasses=3\n"


def test_layers_are_read():
    config = parse_config(LEAKY)
    assert (config.height, config.width, config.channels) == (64, 96, 3)
    assert config.layers[0] == Convolution(10, (-1,), 8, 3, 2, True, "leaky")
    assert config.layers[2] == Route(26, (1,), 2, 1)
    assert config.layers[4].inputs == (3, 2)
    assert config.layers[6] == MaxPool(51, (5,), 2, 2)
    assert config.layers[12].inputs == (11, 6)
    assert config.layers[9] == YoloHead(70, (8,), ((20, 22), (35, 18), (40, 55)), 3)
    assert (config.classes, config.segmentation_classes) == (3, 3)
    assert config.strides() == (16, 8)
    shortcuts = [layer for layer in parse_config(MISH).layers if isinstance(layer, Shortcut)]
    assert [layer.inputs for layer in shortcuts] == [(1, 0), (6, 4)]


def test_shapes():
    shapes = parse_config(LEAKY).shapes()
    assert shapes[:3] == [(3, 64, 96), (8, 32, 48), (16, 16, 24)]
    assert shapes[-1] == (3, 64, 96)
    assert parse_config(LEAKY).shapes((32, 32))[1] == (8, 16, 16)


@pytest.mark.parametrize("name", CFGS)
def test_a_file_and_its_text_are_the_same(name, tmp_path):
    path = tmp_path / "net.cfg"
    # As an editor on Windows saves it.
    path.write_bytes(b"\xef\xbb\xbf" + CFGS[name].replace("\n", "\r\n").encode())
    assert parse_config(path).layers == parse_config(CFGS[name]).layers


def test_what_is_for_training_is_skipped_even_where_it_is_said_twice():
    assert parse_config(NET + "steps=1,2\nsteps=3,4\nburn_in=x\n" + CONV + SEG).layers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "'cfg': the first section must be .net., found no section"),
        ("\n[foo]\n", "the first section must be .net., found .foo. in line 2"),
        ("width=3\n[net]\n", "line 1: the section '.net.' is needed, found 'width=3'"),
        ("[net\n", "line 1: '.name.' is needed, found '.net'"),
        (NET + "width\n", "line 4: 'key=value' is needed, found 'width'"),
        (NET, r"a \[yolo\] or \[seg\] section is needed, found none"),
        (NET.replace("width=64\n", "") + CONV + SEG, "line 1: .net. needs 'width'"),
        (NET + CONV.replace("filters=16\n", "") + SEG, "line 4: .convolutional. needs 'filters'"),
        (NET + CONV.replace("16", "x") + SEG, "line 5: .convolutional. filters needs a whole num"),
        (NET + CONV.replace("16", "-16") + SEG, "line 5: .* from 1 to 65536, found '-16'"),
        (NET + CONV.replace("16", "1_6") + SEG, "line 5: .* from 1 to 65536, found '1_6'"),
        (NET + CONV.replace("16", "9" * 5000) + SEG, "line 5: .* from 1 to 65536, found '9"),
        (NET + CONV + "size=5\n" + SEG, "line 9: .convolutional. says size=3 and size=5"),
        (NET + "[route]\nlayers=-1\n", "line 5: .route. layers=-1: no layer is above"),
        (NET + CONV + "[route]\nlayers=-2\n" + SEG, "line 10: .* -2 means layer -1, and only 0"),
        (NET + CONV + "[route]\nlayers=3\n" + SEG, "line 10: .* 3 means layer 3, and only 0 to 0"),
        (NET + CONV + "[route]\nlayers=\n" + SEG, "line 10: .* layers needs whole numbers"),
        (NET + CONV + "[shortcut]\nfrom=0,0\n" + SEG, "line 10: .* from needs one layer"),
        (NET + CONV + SEG + CONV, r"line 13: \[convolutional\] would read the head \[seg\] above"),
        (NET + CONV + SEG + "[route]\nlayers=2\n", r"line 14: .* that is no head \(layer 2 is"),
        (
            NET + CONV + "[route]\nlayers=0\ngroups=2\ngroup_id=2\n" + SEG,
            "line 12: .route. group_id needs a number below groups=2, found '2'",
        ),
        (
            NET + CONV + "[route]\nlayers=-1\ngroups=3\n" + SEG,
            r"layer 1 \(\[route\], line 9\): channels that divide into 3 groups .* found 16",
        ),
        (
            NET + CONV + CONV + "[route]\nlayers=0,1\n" + SEG,
            "one height and width are needed, found layer 0 with 16x32x32, layer 1 with 16x16x16",
        ),
        (
            NET + CONV + CONV + "[shortcut]\nfrom=0\n" + SEG,
            "two layers of one shape are needed, found layer 1 with 16x16x16, layer 0 with 16x32",
        ),
        (
            NET + CONV + SEG.replace("16", "3"),
            r"layer 2 \(\[seg\], line 11\): 3 channels are needed before it, one a class, found 16",
        ),
        (
            NET + CONV + YOLO.replace("3,4", "3,4,5,6").replace("0,1", "0,1,2"),
            r"24 channels are needed before it, 3 anchors \* \(5 \+ 3 classes\), found 16",
        ),
        (NET + CONV + YOLO.replace("3,4", "3"), "line 11: .yolo. anchors needs pairs of numbers"),
        (NET + CONV + YOLO.replace("3,4", "3,nan"), "line 11: .yolo. anchors needs pairs"),
        (NET + CONV + YOLO.replace("0,1", "0,2"), "line 10: .* numbers of anchors, 0 to 1, found"),
        (
            NET.replace("64", "63") + CONV + YOLO,
            "a grid that divides the image's 63x63 is needed, found 32x32",
        ),
        (
            NET.replace("64", "2") + CONV + "[maxpool]\nsize=2\nstride=2\n" + SEG,
            r"layer 1 \(\[maxpool\], line 9\): 2x2 pixels are needed, found 1x1",
        ),
        (
            NET + CONV + YOLO + "[route]\nlayers=0\n" + YOLO.replace("classes=3", "classes=2"),
            r"line 15: 3 classes are needed as in the \[yolo\] of line 9, found 2",
        ),
        (NET + CONV + "[seg]\nclasses=300\n", "line 10: .seg. classes needs at most 256"),
    ],
)
def test_one_line_says_what_is_wrong(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_config(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            NET + CONV + "[lstm]\n" + SEG,
            "line 9: a layer of convolutional, .* is needed, found .ls",
        ),
        (NET + CONV.replace("leaky", "swish") + SEG, "line 8: an activation of linear, leaky, mi"),
        (NET + CONV + "groups=4\n" + SEG, "line 9: .convolutional. groups=4 is not part of YOEO"),
        (NET + CONV + SEG + "[route]\nlayers=1\n[seg]\nclasses=16\n", r"line 15: one \[seg\] at"),
    ],
)
def test_what_yoeo_does_not_have_is_refused(text, message):
    with pytest.raises(UnsupportedModelError, match=message):
        parse_config(text)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="'.*none.cfg' is not there"):
        parse_config(tmp_path / "none.cfg")
    (tmp_path / "bytes.cfg").write_bytes(b"[net]\n\xff")
    with pytest.raises(InputError, match="cannot be read .it is not text"):
        parse_config(str(tmp_path / "bytes.cfg"))
