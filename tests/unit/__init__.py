"""Fast tests of pure code."""
