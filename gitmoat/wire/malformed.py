"""The one refusal every reader of this package raises."""


class Malformed(Exception):
    """Input that is not fully understood. `what` never quotes the input."""

    def __init__(self, what: str, status: int = 400) -> None:
        super().__init__(what)
        self.what = what
        self.status = status

    def alone(self) -> "Malformed":
        """The same without its traceback, for readers that keep it: its frames refer to the reader,
        and that reference cycle would keep the reader's buffers."""
        return Malformed(self.what, self.status)
