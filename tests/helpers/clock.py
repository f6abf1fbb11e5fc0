"""A clock tests turn by hand."""


class Clock:
    """Unix seconds; sleeping is turning it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
