"""Token buckets for one process."""

from .bucket import Bucket
from .limiter import Limiter

__all__ = ["Bucket", "Limiter"]
