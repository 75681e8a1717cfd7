"""What drivers make of kernels for GPUs that this machine has not: registers, machine code, times.

Drivers compile without their hardware (drivers.py), what they say is read (pipelines.py,
assembly.py, walk.py), and a model of the device (machines.py, model.py) says how long it takes.
"""
