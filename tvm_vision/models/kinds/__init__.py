"""What kind of network this is: by the shapes of its outputs, and what its file says of itself."""
