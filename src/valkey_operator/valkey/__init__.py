"""The only code that speaks to a Valkey server."""
