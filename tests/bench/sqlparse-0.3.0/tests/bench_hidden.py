import unittest

import sqlparse


class Split(unittest.TestCase):
    def test_semicolon_in_parentheses(self):
        self.assertEqual(
            sqlparse.split('select (a; b) from c; select 2'),
            ['select (a; b) from c;', 'select 2'],
        )

    def test_semicolon_in_nested_parentheses(self):
        self.assertEqual(
            sqlparse.split('insert into t values ((1;2), (f(3;4)));select 1;'),
            ['insert into t values ((1;2), (f(3;4)));', 'select 1;'],
        )

    def test_parentheses_without_semicolon(self):
        self.assertEqual(
            sqlparse.split('select (a, (b)) from c; select f(2);'),
            ['select (a, (b)) from c;', 'select f(2);'],
        )

    def test_statements(self):
        self.assertEqual(sqlparse.split('select 1; select 2;\n\nselect 3'), ['select 1;', 'select 2;', 'select 3'])

    def test_semicolon_in_text(self):
        self.assertEqual(sqlparse.split("select 'a;b'; select 2"), ["select 'a;b';", 'select 2'])

    def test_block(self):
        block = 'CREATE FUNCTION f() RETURNS int AS BEGIN SELECT 1; SELECT 2; END;'
        self.assertEqual(sqlparse.split(block + ' SELECT 3;'), [block, 'SELECT 3;'])


class Format(unittest.TestCase):
    def test_keywords(self):
        self.assertEqual(sqlparse.format('select a from b', keyword_case='upper'), 'SELECT a FROM b')
