"""Reasons why the house cannot start, told in one line with the remedy."""


class StartError(Exception):
    """Something outside the program keeps it from starting.

    `what` is one plain line: what is wrong, and where. `remedy` is what to do
    about it. Both are shown to the operator as they are, without a traceback.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy
