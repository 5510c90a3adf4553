"""What every process of ours has: logs, a port, health, a way to begin anew. Knows neither Kubernetes nor Valkey."""
