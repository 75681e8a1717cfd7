"""What the parameter model may name, and how networks are loaded beside each other."""

import threading
from pathlib import Path

import numpy as np
import pytest

from support.ros import fakes
from tvm_vision.errors import InputError, PackageError
from tvm_vision.exporters.yoeo.names import ClassNames, read_names
from tvm_vision_ros.model_folder import ModelSource, RenamedModel, find_model, read_config
from tvm_vision_ros.model_loader import ModelLoader, ModelRequest

CONFIG = """
detection:
  classes: [ball, goalpost, robot]
  team_colors: false
segmentation:
  classes: [background, lines, field]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model_config.yaml").write_text(CONFIG)
    (tmp_path / "tvm").mkdir()
    return tmp_path


def test_a_file_and_a_folder_that_are_packages(tmp_path):
    tar = tmp_path / "net.tar"
    tar.touch()
    unpacked = tmp_path / "net"
    unpacked.mkdir()
    (unpacked / "mod.json").touch()
    assert find_model(str(tar)) == ModelSource(tar)
    assert find_model(str(unpacked)) == ModelSource(unpacked)


@pytest.mark.parametrize("model", ["x" * 5000, "a\0b", "~nobody_of_this_name/x", "/dev/null/x"])
def test_paths_that_cannot_be_are_told(model):
    with pytest.raises(InputError, match="a package is needed"):
        find_model(model)


def test_what_may_not_be_read_is_told(tmp_path, monkeypatch):
    """A folder that belongs to somebody else; whoever runs the tests may read everything."""

    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", forbidden)
    with pytest.raises(InputError, match="cannot be read \\(Permission denied\\): check model"):
        find_model(str(tmp_path / "yoeo.tar"))


@pytest.mark.parametrize("place", ["yoeo.tar", "tvm/yoeo.tar", "tvm/mod.json"])
def test_a_robots_model_folder(folder, place):
    (folder / place).touch()
    package = folder / "tvm" if place.endswith("json") else folder / place
    assert find_model(str(folder)) == ModelSource(
        package, ("ball", "goalpost", "robot"), ("background", "lines", "field")
    )


def test_the_former_formats_owner_is_told_what_to_do(folder):
    for name in ("yoeo.so", "yoeo.json", "yoeo.params"):
        (folder / "tvm" / name).touch()
    (folder / "onnx").mkdir()
    (folder / "onnx" / "net.onnx").touch()
    with pytest.raises(InputError) as refused:
        find_model(str(folder))
    text = str(refused.value)
    assert "\n" not in text
    assert (
        f"tvm-vision yoeo-onnx-to-tvm {folder}/onnx/net.onnx --names {folder}/model_config.yaml "
        f"-o {folder}/yoeo.tar"
    ) in text
    # Compiled as it says, the folder is a model.
    (folder / "yoeo.tar").touch()
    assert find_model(str(folder)).package == folder / "yoeo.tar"


@pytest.mark.parametrize(
    ("network", "command"),
    [
        ("onnx/yoeo.onnx", "yoeo-onnx-to-tvm {0}/onnx/yoeo.onnx --names {0}/model_config.yaml "),
        ("onnx/rfdetr.onnx", "compile {0}/onnx/rfdetr.onnx -o {0}/model.tar"),
    ],
)
def test_a_folder_with_onnx_alone_is_compiled_by_the_command_it_names(tmp_path, network, command):
    """bit-bots' folder of 2026."""
    (tmp_path / "model_config.yaml").write_text(CONFIG)
    (tmp_path / "onnx").mkdir()
    (tmp_path / network).touch()
    with pytest.raises(InputError) as refused:
        find_model(str(tmp_path))
    words = str(refused.value).split("compile one with ")[1]
    assert words.startswith(f"tvm-vision {command.format(tmp_path)}")
    # The file that the command names is one that it reads.
    if "--names" in words:
        assert read_names(tmp_path / "model_config.yaml") == ClassNames(
            ("ball", "goalpost", "robot"), ("background", "lines", "field")
        )
    # Written where the command does, the folder is a model.
    (target := Path(words.split(" -o ")[1])).touch()
    assert find_model(str(tmp_path)).package == target


def test_options_of_classes_go_by_the_folders_names(tmp_path):
    model = RenamedModel(fakes.FakeModel(), ModelSource(tmp_path, ("red", "green", "blue")))
    model.network.class_options = {"red": {"enabled": False}}
    assert not len(model(np.full((8, 8, 3), 255, np.uint8)).detections)
    with pytest.raises(InputError, match="found 'ball': it has red, green, blue"):
        model.network.class_options = {"ball": {"enabled": False}}


def test_what_is_no_model(tmp_path, folder):
    with pytest.raises(InputError, match="the parameter model is needed and empty"):
        find_model("")
    with pytest.raises(InputError, match="does not exist: check model"):
        find_model(str(tmp_path / "missing.tar"))
    with pytest.raises(InputError, match=r"a package .* is needed, and .* has none: compile"):
        find_model(str(folder))
    (folder / "a.tar").touch()
    (folder / "b.tar").touch()
    with pytest.raises(InputError, match="found a.tar, b.tar: name one"):
        find_model(str(folder))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("detection: [", "must be YAML"),
        ("- a", "must have detection and segmentation"),
        ("detection: [ball]", "detection: classes: must be a list of names"),
        ("detection: {classes: [1]}", "must be a list of names"),
        ("detection: {classes: ball}", "must be a list of names"),
        ("detection: {classes: [ball, ball]}", "has a name twice"),
    ],
)
def test_a_broken_model_config(tmp_path, text, words):
    path = tmp_path / "model_config.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_config(path)


def test_half_a_model_config_leaves_the_rest(tmp_path):
    path = tmp_path / "model_config.yaml"
    path.write_text("segmentation: {classes: [a, b]}")
    assert read_config(path) == (None, ("a", "b"))


def test_names_of_the_folder_count(tmp_path):
    source = ModelSource(tmp_path, ("red", "green", "blue"), None)
    model = RenamedModel(fakes.FakeModel(), source)
    result = model(np.full((8, 8, 3), 255, np.uint8))
    assert [name for name, _, _ in result.detections] == ["red"]
    assert result.segmentation.class_names == fakes.PIXELS
    assert model.class_names == ("red", "green", "blue")
    assert (model.kind, model.name) == ("yoeo", "fake")


def test_there_must_be_as_many_names_as_classes(tmp_path):
    with pytest.raises(PackageError, match=r"3 names are needed under detection .* found 1 \(a\)"):
        RenamedModel(fakes.FakeModel(), ModelSource(tmp_path, ("a",)))


class Loads:
    """What a loader is given and gives, with a gate in front of every load."""

    def __init__(self):
        self.gate, self.started = threading.Event(), threading.Event()
        self.loaded, self.finished = [], threading.Condition()
        self.loader = ModelLoader(self._loaded, self._load)

    def _load(self, request):
        self.started.set()
        assert self.gate.wait(10)
        if request.model == "bad":
            raise PackageError("bad\npackage")
        if request.model == "odd":
            raise RuntimeError("odd")
        return request.model

    def _loaded(self, request, model, problem):
        with self.finished:
            self.loaded.append((request.model, model, problem))
            self.finished.notify_all()

    def wait(self, count):
        with self.finished:
            assert self.finished.wait_for(lambda: len(self.loaded) >= count, 10)
        return self.loaded


def test_of_several_requests_the_newest_counts():
    loads = Loads()
    loads.loader.request(ModelRequest("a"))
    assert loads.started.wait(10)
    for name in "bcd":
        loads.loader.request(ModelRequest(name))
    loads.gate.set()
    assert loads.wait(2) == [("a", "a", ""), ("d", "d", "")]
    loads.loader.request(ModelRequest("e"))
    assert loads.wait(3)[-1] == ("e", "e", "")


def test_failures_are_told_in_one_line():
    loads = Loads()
    loads.gate.set()
    loads.loader.request(ModelRequest("bad"))
    assert loads.wait(1) == [("bad", None, r"bad\npackage")]
    loads.loader.request(ModelRequest("odd"))
    assert loads.wait(2)[1] == ("odd", None, "RuntimeError: odd")


def test_closed_it_waits_for_what_is_loading_and_tells_nobody():
    loads = Loads()
    loads.loader.request(ModelRequest("a"))
    assert loads.started.wait(10)
    assert not loads.loader.close(timeout=0.01)
    loads.gate.set()
    assert loads.loader.close(timeout=10)
    loads.loader.request(ModelRequest("b"))
    assert loads.loaded == []
