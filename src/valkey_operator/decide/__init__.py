"""What to do next: pure functions of what was seen."""
