"""What was seen, as frozen values. No pydantic: the sidecar imports this."""
