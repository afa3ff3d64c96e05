"""What is answered below the application: the request never reaches it."""

from __future__ import annotations

from service.errors import PinionError


class Refusal(PinionError):
    """The bytes of a client can't be taken as a request; its connection closes after the answer.

    Attributes:
        status: the HTTP status.
        sentence: what was expected, what came, what to do.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
