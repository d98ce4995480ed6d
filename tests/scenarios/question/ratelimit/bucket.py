"""One token bucket."""

import time


class Bucket:
    """Holds at most `burst` tokens and gains `rate` of them a second."""

    def __init__(self, rate, burst, clock=time.monotonic):
        if rate <= 0 or burst < 1:
            raise ValueError("rate must be positive and burst at least 1")
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self.tokens = float(burst)
        self.updated = clock()

    def _refill(self):
        now = self.clock()
        # Never negative: a clock that goes backwards takes no tokens away.
        elapsed = max(0.0, now - self.updated)
        self.tokens = min(self.burst, self.tokens + elapsed * self.rate)
        self.updated = now

    def take(self, tokens=1):
        """Takes tokens if there are enough; says whether it did."""
        self._refill()
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True

    def wait(self, tokens=1):
        """Seconds until so many tokens will be there."""
        self._refill()
        return max(0.0, (tokens - self.tokens) / self.rate)

    def full(self):
        """Whether nothing has been taken that has not come back."""
        self._refill()
        return self.tokens >= self.burst
