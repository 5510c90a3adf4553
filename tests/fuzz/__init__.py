"""Our own listening ports under attack: each server in a process of its own, honest clients beside it."""
