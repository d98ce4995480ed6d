"""A bucket for each client."""

import math
import threading
import time

from .bucket import Bucket


class Limiter:
    """Gives every key a bucket of its own. Safe to use from several threads."""

    def __init__(self, rate, burst, max_keys=10_000, clock=time.monotonic):
        self.rate = rate
        self.burst = burst
        self.max_keys = max_keys
        self.clock = clock
        self._buckets = {}
        self._lock = threading.Lock()

    def allow(self, key):
        """Whether the client may go on now."""
        with self._lock:
            return self._bucket(key).take()

    def retry_after(self, key):
        """Whole seconds after which the client should try again."""
        with self._lock:
            return math.ceil(self._bucket(key).wait())

    def _bucket(self, key):
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self.max_keys:
                self._forget()
            bucket = self._buckets[key] = Bucket(self.rate, self.burst, self.clock)
        return bucket

    def _forget(self):
        # A full bucket is as good as a new one, so forgetting it changes nothing for its client.
        for key in [key for key, bucket in self._buckets.items() if bucket.full()]:
            del self._buckets[key]
