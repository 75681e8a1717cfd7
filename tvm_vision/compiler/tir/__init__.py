"""What is done to TensorIR functions before they are scheduled."""
