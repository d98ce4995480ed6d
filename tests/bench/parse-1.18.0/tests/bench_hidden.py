import unittest

import parse


class Whole(unittest.TestCase):
    def test_line_break_after_a_number(self):
        self.assertIsNone(parse.parse('{:d}', '12\n'))

    def test_line_break_after_text(self):
        self.assertIsNone(parse.parse('id {}!', 'id 7!\n'))
        self.assertIsNone(parse.compile('spam').parse('spam\n'))

    def test_other_rests(self):
        self.assertIsNone(parse.parse('{:d}', '12 '))
        self.assertIsNone(parse.parse('{:d}', '\n12'))
        self.assertIsNone(parse.parse('spam', 'spam\n\n'))

    def test_line_break_that_belongs_to_it(self):
        self.assertEqual(parse.parse('{:d}\n', '12\n')[0], 12)
        self.assertEqual(parse.parse('a{}b', 'a\nb')[0], '\n')

    def test_the_whole_text(self):
        self.assertEqual(parse.parse('{:d}', '12')[0], 12)
        self.assertEqual(parse.parse('{} and {}', 'one and two').fixed, ('one', 'two'))

    def test_search(self):
        self.assertEqual(parse.search('age: {:d}\n', 'name: x\nage: 42\nend')[0], 42)
