"""Small YOEO networks that together have every kind of layer and option."""

# Two heads of three anchors, a half of the channels, a longer side, both ways to name a layer.
LEAKY = """
[net]
batch=64
width=96
height=64
channels=3
learning_rate=0.001

# 0
[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
pad=1
activation=leaky

[route]
layers=-1
groups=2
group_id=1

[convolutional]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
activation=leaky

[route]
layers = -1,-2

# 5
[convolutional]
batch_normalize=1
filters=16
size=1
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
batch_normalize=1
filters=32
size=3
stride=2
pad=1
activation=leaky

[convolutional]
size=1
stride=1
pad=1
filters=24
activation=linear

[yolo]
mask = 3,4,5
anchors = 4,6,  9,12,  7,30,  20,22,  35,18,  40,55
classes=3
num=6

# 10
[route]
layers = -3

[upsample]
stride=2

[route]
layers = -1, 6

[convolutional]
size=1
stride=1
filters=24
activation=linear

[yolo]
mask = 0,1,2
anchors = 4,6,  9,12,  7,30,  20,22,  35,18,  40,55
classes=3
num=6

# 15
[route]
layers = 5

[upsample]
stride=4

[convolutional]
batch_normalize=1
filters=3
size=1
stride=1
activation=leaky

[seg]
classes=3
"""

# One head; sums, a pool that pads with zeros, mish with batch norm and with a bias.
MISH = """
[net]
width=64
height=64

[convolutional]
batch_normalize=1
filters=6
size=3
stride=2
activation=mish

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
activation=mish

[shortcut]
from=-2
activation=linear

[maxpool]
size=2
stride=1

[convolutional]
batch_normalize=1
filters=12
size=3
stride=2
activation=mish

# 5
[convolutional]
filters=12
size=1
stride=1
activation=mish

[convolutional]
batch_normalize=1
filters=12
size=3
stride=1
activation=linear

[shortcut]
from=4

[convolutional]
filters=14
size=1
stride=1
activation=linear

[yolo]
mask=0,1
anchors=10.5,14, 23,27
classes=2

# 10
[route]
layers=7

[upsample]
stride=4

[convolutional]
filters=2
size=3
stride=1
activation=linear

[seg]
classes=2
"""

# Three heads, no mask; a quarter of two layers, pools side by side, sums over a distance.
GROUPED = """
[net]
width=64
height=64

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
activation=leaky

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
activation=leaky

[convolutional]
batch_normalize=1
filters=16
size=3
stride=1
activation=leaky

[route]
layers=-1,-2
groups=4
group_id=1

[maxpool]
size=5
stride=1

# 5
[maxpool]
size=3
stride=1

[route]
layers=-1,-2,-3

[convolutional]
batch_normalize=1
filters=16
size=1
stride=1
activation=mish

[shortcut]
from=-6

[convolutional]
filters=6
size=1
stride=1
activation=linear

# 10
[yolo]
mask=0
anchors=6,6, 12,15, 30,20, 25,45
classes=1

[route]
layers=8

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
activation=leaky

[convolutional]
filters=6
size=1
stride=1
activation=linear

[yolo]
mask=1
anchors=6,6, 12,15, 30,20, 25,45
classes=1

# 15
[route]
layers=12

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
activation=leaky

[convolutional]
filters=12
size=1
stride=1
activation=linear

[yolo]
mask=2,3
anchors=6,6, 12,15, 30,20, 25,45
classes=1
"""

# A mask alone, of a grey image.
MASK_ONLY = """
[net]
width=32
height=32
channels=1

[convolutional]
filters=4
size=3
stride=2
activation=leaky

[upsample]
stride=2

[seg]
classes=4
"""

CFGS = {"leaky": LEAKY, "mish": MISH, "grouped": GROUPED, "mask only": MASK_ONLY}
