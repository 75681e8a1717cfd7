"""What a network says about an image of raw bytes, by the C interface alone: any language that can
call C does the same.

    python3 predict.py libtvm_vision.so PACKAGE PIXELS HEIGHT WIDTH CHANNELS

PIXELS: a file of uint8 rows, BGR. Prints the network, its inputs and outputs, a line for each class
or box, and how many bytes each output has. Needs nothing but Python's own ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint8, c_void_p


class Info(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("kind", c_char_p), ("device", c_char_p), ("losses", c_char_p),
        ("inputs", c_size_t), ("outputs", c_size_t),
    ]  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("dtype", c_char_p), ("layout", c_char_p), ("shape", POINTER(c_int64)),
        ("axes", c_size_t), ("scale", c_float), ("zero_point", c_int64),
    ]  # fmt: skip


class Image(ctypes.Structure):
    _fields_ = [
        ("data", c_char_p), ("height", c_int), ("width", c_int), ("channels", c_int),
        ("stride", c_size_t),
    ]  # fmt: skip


class Object(ctypes.Structure):
    _fields_ = [
        ("x1", c_float), ("y1", c_float), ("x2", c_float), ("y2", c_float), ("score", c_float),
        ("class_id", c_int), ("label", c_char_p), ("keypoints", POINTER(c_float)),
        ("keypoint_count", c_size_t), ("oriented", POINTER(c_float)), ("mask", POINTER(c_uint8)),
        ("mask_top", c_int), ("mask_left", c_int), ("mask_height", c_int), ("mask_width", c_int),
    ]  # fmt: skip


class Result(ctypes.Structure):
    _fields_ = [
        ("objects", POINTER(Object)), ("count", c_size_t), ("mask", POINTER(c_uint8)),
        ("mask_height", c_int), ("mask_width", c_int), ("depth", POINTER(c_float)),
        ("depth_height", c_int), ("depth_width", c_int), ("depth_unit", c_char_p),
        ("depth_inverse", c_int),
    ]  # fmt: skip


def opened(library: str) -> ctypes.CDLL:
    """The library, whose functions know what they take where that is no int."""
    tvm_vision = ctypes.CDLL(library)
    tvm_vision.tvm_vision_error.restype = c_char_p
    tvm_vision.tvm_vision_load.restype = c_void_p
    tvm_vision.tvm_vision_load.argtypes = [c_char_p, c_void_p]
    tvm_vision.tvm_vision_free.restype = None
    tvm_vision.tvm_vision_free.argtypes = [c_void_p]
    data, size = POINTER(c_void_p), POINTER(c_size_t)
    for name, taken in (
        ("about", [POINTER(Info)]),
        ("describe", [c_int, c_size_t, POINTER(Tensor)]),
        ("set_input", [c_size_t, c_void_p, c_size_t]),
        ("run", []),
        ("get_output", [c_size_t, data, size]),
        ("prepare", [POINTER(Image), data, size]),
        ("predict", [POINTER(Image), c_size_t, POINTER(Result)]),
    ):
        getattr(tvm_vision, f"tvm_vision_{name}").argtypes = [c_void_p, *taken]
    return tvm_vision


def main(library: str, package: str, pixels: str, *sides: str) -> None:
    tvm_vision = opened(library)

    def done(failed: int) -> None:
        if failed:
            sys.exit(f"predict: {tvm_vision.tvm_vision_error().decode()}")

    with open(pixels, "rb") as file:
        image = Image(file.read(), *map(int, sides), 0)
    network = tvm_vision.tvm_vision_load(package.encode(), None)
    done(not network)
    info = Info()
    done(tvm_vision.tvm_vision_about(network, byref(info)))
    print(f"network {info.name.decode()} ({info.kind.decode()}) on {info.device.decode()}")
    tensor = Tensor()
    for outputs, count in enumerate((info.inputs, info.outputs)):
        for index in range(count):
            done(tvm_vision.tvm_vision_describe(network, outputs, index, byref(tensor)))
            shape = list(tensor.shape[: tensor.axes])
            which = ("input", "output")[outputs]
            print(f"{which} {tensor.name.decode()} {tensor.dtype.decode()}{shape}")

    # An image, and what the network says about it.
    result = Result()
    done(tvm_vision.tvm_vision_predict(network, byref(image), 5, byref(result)))
    for one in result.objects[: result.count]:
        corners = " ".join(f"{side:.4f}" for side in (one.x1, one.y1, one.x2, one.y2))
        print(f"object {one.class_id} {one.score:.7f} {corners} {one.label.decode()}")
    if result.mask:
        marked = sum(map(bool, result.mask[: result.mask_height * result.mask_width]))
        print(f"mask {result.mask_height}x{result.mask_width} {marked}")

    # The same by its tensors.
    data, size = c_void_p(), c_size_t()
    done(tvm_vision.tvm_vision_prepare(network, byref(image), byref(data), byref(size)))
    done(tvm_vision.tvm_vision_set_input(network, 0, data, size))
    done(tvm_vision.tvm_vision_run(network))
    for index in range(info.outputs):
        done(tvm_vision.tvm_vision_get_output(network, index, byref(data), byref(size)))
        print(f"bytes {index} {size.value}")
    tvm_vision.tvm_vision_free(network)


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit("predict: LIBRARY PACKAGE PIXELS HEIGHT WIDTH CHANNELS are needed")
    main(*sys.argv[1:])
