"""The refusal of an attempt by an answer, where no system call failed."""


class Refused(Exception):
    """Its text says which answer it was."""
