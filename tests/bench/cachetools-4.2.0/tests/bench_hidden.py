import unittest

import cachetools


def missing(cls, stores):
    class Own(cls):
        def __missing__(self, key):
            if stores:
                self[key] = key * 2
            return key * 2

    return Own(maxsize=2)


class Missing(unittest.TestCase):
    def unstored(self, cls):
        cache = missing(cls, False)
        self.assertEqual(cache[1], 2)
        self.assertNotIn(1, cache)
        self.assertEqual(len(cache), 0)
        cache[5] = 'five'
        self.assertEqual(cache[1], 2)
        self.assertEqual(cache[5], 'five')
        self.assertEqual(cache.popitem(), (5, 'five'))
        with self.assertRaises(KeyError):
            cache.popitem()

    def stored(self, cls):
        cache = missing(cls, True)
        self.assertEqual([cache[1], cache[1], cache[2], cache[3]], [2, 2, 4, 6])
        self.assertEqual(len(cache), 2)

    def test_lru_unstored(self):
        self.unstored(cachetools.LRUCache)

    def test_mru_unstored(self):
        self.unstored(cachetools.MRUCache)

    def test_lfu_unstored(self):
        self.unstored(cachetools.LFUCache)

    def test_fifo_unstored(self):
        self.unstored(cachetools.FIFOCache)

    def test_stored(self):
        for cls in (cachetools.LRUCache, cachetools.MRUCache, cachetools.LFUCache):
            with self.subTest(cls=cls):
                self.stored(cls)


class Order(unittest.TestCase):
    def test_lru(self):
        cache = cachetools.LRUCache(maxsize=2)
        cache[1], cache[2] = 'a', 'b'
        cache[1]
        cache[3] = 'c'
        self.assertEqual(sorted(cache), [1, 3])

    def test_lfu(self):
        cache = cachetools.LFUCache(maxsize=2)
        cache[1], cache[2] = 'a', 'b'
        cache[1]
        cache[3] = 'c'
        self.assertEqual(sorted(cache), [1, 3])

    def test_mru(self):
        cache = cachetools.MRUCache(maxsize=2)
        cache[1], cache[2] = 'a', 'b'
        cache[1]
        cache[3] = 'c'
        self.assertEqual(sorted(cache), [2, 3])
