"""Networks of our own, as robots run them, which no library of the zoo has; a module for each kind.

Each is the plainest form of its paper, in PyTorch, with one input and random weights. Searches that
its layers do not need, as that for neighbours of points, are fixed tables. What is here can be read
without PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Modules, and the networks and inputs of each, whose classes its NETWORKS has.
KINDS: dict[str, dict[str, tuple[int, ...]]] = {
    "pictures": {
        "super_resolution": (1, 3, 128, 128),
        "style_transfer": (1, 3, 256, 256),
        "fsrcnn": (1, 1, 120, 160),
        "zero_dce": (1, 3, 192, 256),
        "restormer": (1, 3, 96, 128),
        "hdrnet": (1, 3, 384, 384),
        "involution": (1, 3, 160, 160),
        "vq_vae": (1, 3, 128, 128),
    },
    "segmenters": {
        "unet": (1, 3, 256, 256),
        "espnet": (1, 3, 256, 384),
        "enet": (1, 3, 256, 384),
        "bisenet": (1, 3, 256, 384),
        "dexined": (1, 3, 352, 352),
        "gr_convnet": (1, 4, 224, 224),
    },
    "detectors": {
        "ssd": (1, 3, 300, 300),
        "centernet": (1, 3, 256, 256),
        "pose": (1, 3, 256, 192),
        "superpoint": (1, 1, 240, 320),
        "lightglue": (2, 512, 130),
        "netvlad": (1, 3, 240, 320),
        "yolact": (1, 3, 256, 256),
        "lane_anchors": (1, 3, 288, 800),
        "siamese": (1, 3, 256, 256),
    },
    "motion": {
        "raft": (1, 6, 256, 320),
        "pwc": (1, 6, 192, 256),
        "stereo_groups": (1, 6, 128, 256),
        "monodepth": (1, 3, 192, 640),
        "deformable": (1, 3, 128, 128),
        "shifted_video": (8, 3, 112, 112),
        "x3d": (1, 3, 8, 112, 112),
        "conv_lstm": (1, 8, 3, 64, 64),
        "event_unet": (1, 4, 5, 128, 160),
    },
    "points": {
        "pointnet": (1, 3, 2048),
        "pointnet_segmenter": (1, 3, 2048),
        "pointnet2": (1, 3, 1024),
        "dgcnn": (1, 3, 1024),
        "kpconv": (1, 2048, 4),
        "point_pillars": (1, 9, 2048, 32),
        "range_image": (1, 5, 64, 1024),
        "birds_view": (4, 3, 128, 352),
        "occupancy": (1, 1, 32, 64, 64),
        "stereo_volume": (1, 64, 16, 32, 64),
        "nerf": (1024, 64, 3),
        "triplane": (1, 65536, 3),
        "siren": (1, 16384, 3),
        "graph_net": (1, 256, 24),
    },
    "sequences": {
        "dilated_rows": (1, 64, 1000),
        "lstm": (1, 50, 64),
        "gru": (1, 50, 64),
        "demucs": (1, 1, 16340),
        "conv_tasnet": (1, 1, 16000),
        "keywords": (1, 1, 16000),
        "long_windows": (1, 256, 128),
        "mamba": (1, 64, 128),
        "conformer": (1, 256, 80),
        "crnn": (1, 1, 32, 160),
        "speaker": (1, 80, 300),
    },
    "policies": {
        "diffusion_unet": (1, 16, 64),
        "diffusion_film": (1, 241),
        "act": (1, 3, 240, 320),
        "legged_policy": (4096, 50, 42),
        "gru_policy": (1, 480),
        "td_mpc": (512, 152),
        "rssm": (16, 1552),
        "dreamer_pictures": (16, 3, 64, 64),
        "decision_transformer": (1, 20, 24),
        "perceiver": (1, 2048, 32),
        "slot_attention": (1, 3, 64, 64),
        "tracks_filter": (64, 12, 2),
        "coupling": (1024, 16),
        "transporter": (1, 6, 160, 160),
    },
}
SHAPES = {model: shape for shapes in KINDS.values() for model, shape in shapes.items()}


def build(model: str) -> Any:
    """The module of a name of SHAPES. Raises ImportError without PyTorch."""
    kind = next(kind for kind, shapes in KINDS.items() if model in shapes)
    return import_module(f".{kind}", __name__).NETWORKS[model]()
