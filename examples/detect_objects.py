"""Boxes and a mask from the demo's YOEO network: python examples/detect_objects.py [IMAGE ...].

Writes each image with what was found into detected/ where --save is given.
"""

import sys
import tempfile
from pathlib import Path

import cv2

import tvm_vision
from tvm_vision.demo.images import MODEL, demo_images
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models.draw import draw_result
from tvm_vision.models.yoeo import YoeoDetector
from tvm_vision.vulkan import devices

save = "--save" in sys.argv
named = [Path(word) for word in sys.argv[1:] if word != "--save"]
# Vulkan's implementation for processors is right, and many times slower than LLVM.
target = "vulkan" if devices() and devices()[0].type != "cpu" else "llvm"
with tempfile.TemporaryDirectory() as folder:
    package = tvm_vision.compile(
        MODEL, Path(folder) / "yoeo.tar", target=target, model_info=yoeo_model_info(MODEL)
    )
    detector = YoeoDetector.load(package, confidence=0.4)
    for path in named or demo_images()[:2]:
        frame = cv2.imread(str(path))
        result = detector(frame)
        print(path.name)
        for name, score, (x1, y1, x2, y2) in result.detections:
            print(f"  {name} {score:.2f} at {x1:.0f}, {y1:.0f} to {x2:.0f}, {y2:.0f}")
        print(f"  field: {result.segmentation.share('field'):.0%} of the image")
        if save:
            Path("detected").mkdir(exist_ok=True)
            cv2.imwrite(f"detected/{path.name}", draw_result(frame, result))
        assert named or len(result.detections)
