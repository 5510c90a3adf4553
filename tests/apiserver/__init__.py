"""The API on a real API server: what it takes, what it refuses, and with which sentence."""
