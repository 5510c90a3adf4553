"""What operator and sidecar agree on. The sidecar imports it, so it needs the standard library and little else."""
