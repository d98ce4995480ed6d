import unittest
import warnings

import semver

warnings.simplefilter('ignore')


def prerelease(version):
    return semver.parse(version)['prerelease']


class Prerelease(unittest.TestCase):
    def test_hash_that_begins_with_zero(self):
        self.assertEqual(prerelease('1.4.0-0c9f2e1'), '0c9f2e1')
        self.assertEqual(prerelease('1.4.0-00a'), '00a')

    def test_zero_first_in_a_later_identifier(self):
        self.assertEqual(prerelease('1.4.0-rc.1.0abc+build.1'), 'rc.1.0abc')
        self.assertEqual(prerelease('1.4.0-0-0'), '0-0')

    def test_other_identifiers(self):
        for text in ('7c9f2e1', 'rc.1', '0', 'alpha-1', 'x.7.z.92'):
            with self.subTest(text=text):
                self.assertEqual(prerelease('1.4.0-' + text), text)

    def test_digits_with_leading_zeroes(self):
        for text in ('0123', 'rc.01', '00'):
            with self.subTest(text=text), self.assertRaises(ValueError):
                semver.parse('1.4.0-' + text)

    def test_build(self):
        self.assertEqual(semver.parse('1.4.0+001')['build'], '001')

    def test_numbers(self):
        for version in ('01.4.0', '1.04.0', '1.4', '1.4.0-', 'a.b.c'):
            with self.subTest(version=version), self.assertRaises(ValueError):
                semver.parse(version)

    def test_order(self):
        self.assertEqual(semver.compare('1.4.0-rc.2', '1.4.0-rc.10'), -1)
        self.assertEqual(semver.compare('1.4.0', '1.4.0-rc.10'), 1)
