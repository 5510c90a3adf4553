"""One settings class per process, read from the environment once, at the start."""
