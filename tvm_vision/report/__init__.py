"""What people look at: networks drawn, times and errors as pages that need no network."""
