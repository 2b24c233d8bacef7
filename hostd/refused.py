"""A refusal that is an answer, not an error of the kernel's."""


class Refused(Exception):
    """Its text is what the answer was."""
