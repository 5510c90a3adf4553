"""Measured figures. Not tests: nothing here passes or fails."""
