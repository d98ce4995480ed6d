import unittest

import parse


class Compile(unittest.TestCase):
    def test_case_sensitive_parse(self):
        parser = parse.compile('SPAM {}', case_sensitive=True)
        self.assertIsNone(parser.parse('spam eggs'))
        self.assertEqual(parser.parse('SPAM eggs')[0], 'eggs')

    def test_case_sensitive_search_and_findall(self):
        parser = parse.compile('Age: {:d}', case_sensitive=True)
        self.assertIsNone(parser.search('name: x, age: 7'))
        self.assertEqual([r[0] for r in parser.findall('Age: 1 age: 2 Age: 3')], [1, 3])

    def test_case_insensitive_by_default(self):
        self.assertEqual(parse.compile('SPAM {}').parse('spam eggs')[0], 'eggs')
        self.assertEqual(parse.compile('SPAM {}', case_sensitive=False).parse('spam eggs')[0], 'eggs')

    def test_extra_types(self):
        parser = parse.compile('{:double}', dict(double=lambda text: 2 * int(text)))
        self.assertEqual(parser.parse('21')[0], 42)


class Functions(unittest.TestCase):
    def test_parse(self):
        self.assertIsNone(parse.parse('SPAM', 'spam', case_sensitive=True))
        self.assertIsNotNone(parse.parse('SPAM', 'spam'))

    def test_named(self):
        self.assertEqual(parse.parse('{a:d}-{b}', '3-x').named, {'a': 3, 'b': 'x'})


if __name__ == '__main__':
    unittest.main()
