"""What every process of ours has: logs, a port to serve on, health. Knows neither Kubernetes nor Valkey."""
