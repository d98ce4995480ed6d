import unittest
from collections import defaultdict

import xmltodict

XML = '<a xmlns="urn:x" xmlns:y="urn:y"><b>1</b><y:c>2</y:c></a>'


def parse(namespaces, xml=XML):
    result = xmltodict.parse(xml, process_namespaces=True, namespaces=namespaces)
    name, content = next(iter(result.items()))
    return name, {key: value for key, value in content.items() if not key.startswith('@')}


class Namespaces(unittest.TestCase):
    def test_empty_defaultdict(self):
        self.assertEqual(parse(defaultdict(lambda: None)), ('a', {'b': '1', 'c': '2'}))

    def test_defaultdict_with_a_key(self):
        namespaces = defaultdict(lambda: None, {'urn:y': 'why'})
        self.assertEqual(parse(namespaces), ('a', {'b': '1', 'why:c': '2'}))

    def test_dict(self):
        namespaces = {'urn:x': None, 'urn:y': 'why'}
        self.assertEqual(parse(namespaces), ('a', {'b': '1', 'why:c': '2'}))

    def test_dict_without_the_key(self):
        self.assertEqual(parse({'urn:x': None}), ('a', {'b': '1', 'urn:y:c': '2'}))

    def test_none(self):
        self.assertEqual(parse(None), ('urn:x:a', {'urn:x:b': '1', 'urn:y:c': '2'}))


class Plain(unittest.TestCase):
    def test_without_namespaces(self):
        self.assertEqual(xmltodict.parse('<a><b>1</b><b>2</b></a>')['a']['b'], ['1', '2'])

    def test_round_trip(self):
        xml = '<?xml version="1.0" encoding="utf-8"?>\n<a x="1"><b>2</b></a>'
        self.assertEqual(xmltodict.unparse(xmltodict.parse(xml)), xml)
