import unittest

from ratelimit import Bucket, Limiter


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class BucketTest(unittest.TestCase):
    def test_tokens_come_back_with_time(self):
        clock = Clock()
        bucket = Bucket(rate=2, burst=3, clock=clock)
        self.assertEqual([bucket.take() for _ in range(4)], [True, True, True, False])
        self.assertEqual(bucket.wait(), 0.5)
        clock.now += 0.5
        self.assertTrue(bucket.take())

    def test_a_clock_that_goes_backwards_takes_nothing_away(self):
        clock = Clock()
        bucket = Bucket(rate=1, burst=1, clock=clock)
        clock.now -= 3600
        self.assertTrue(bucket.take())
        clock.now += 1
        self.assertTrue(bucket.take())

    def test_nonsense_is_refused(self):
        with self.assertRaises(ValueError):
            Bucket(rate=0, burst=1)


class LimiterTest(unittest.TestCase):
    def test_clients_do_not_share_a_bucket(self):
        limiter = Limiter(rate=1, burst=1, clock=Clock())
        self.assertTrue(limiter.allow("a"))
        self.assertFalse(limiter.allow("a"))
        self.assertTrue(limiter.allow("b"))
        self.assertEqual(limiter.retry_after("a"), 1)

    def test_only_full_buckets_are_forgotten(self):
        clock = Clock()
        limiter = Limiter(rate=1, burst=1, max_keys=2, clock=clock)
        limiter.allow("old")
        clock.now += 5
        limiter.allow("busy")
        limiter.allow("new")
        self.assertEqual(sorted(limiter._buckets), ["busy", "new"])


if __name__ == "__main__":
    unittest.main()
