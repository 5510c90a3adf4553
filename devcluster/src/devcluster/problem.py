"""The one error this package raises at people: a sentence that says what is wrong and what to do."""


class Problem(Exception):
    """Something the person at the keyboard can mend. Its text is shown as it is, without a trace."""
