import unittest

import parse


class Compiled(unittest.TestCase):
    def numbers(self, *texts):
        pattern = parse.compile('size {:d}')
        return [pattern.parse('size ' + text)[0] for text in texts]

    def test_decimal_after_hexadecimal(self):
        self.assertEqual(self.numbers('10', '0x10', '10'), [10, 16, 10])

    def test_decimal_after_binary_and_octal(self):
        self.assertEqual(self.numbers('0b11', '12', '0o17', '19'), [3, 12, 15, 19])

    def test_in_one_text(self):
        found = [r[0] for r in parse.compile('<{:d}>').findall('<0x1f> <20> <7>')]
        self.assertEqual(found, [31, 20, 7])

    def test_first_of_each_base(self):
        for text, value in (('0b10', 2), ('0o17', 15), ('0x1f', 31), ('12', 12), ('-7', -7)):
            with self.subTest(text=text):
                self.assertEqual(self.numbers(text), [value])


class Given(unittest.TestCase):
    def test_base_of_the_field(self):
        pattern = parse.compile('{:x}')
        self.assertEqual([pattern.parse(text)[0] for text in ('ff', '10', '0x10')], [255, 16, 16])

    def test_parse(self):
        self.assertEqual(parse.parse('{:d} {:d}', '0x10 10').fixed, (16, 10))
