import test from 'node:test';
import assert from 'node:assert';
import MiniSearch from './src/MiniSearch.ts';

const documents = [
  { id: 1, title: 'Divina Commedia', text: 'Nel mezzo del cammin di nostra vita' },
  { id: 2, title: 'I Promessi Sposi', text: 'Quel ramo del lago di Como' },
  { id: 3, title: 'Vita Nova', text: 'In quella parte del libro della mia memoria' },
];
const index = new MiniSearch({ fields: ['title', 'text'] });
index.addAll(documents);
const ids = (results) => results.map((result) => result.id).sort();

test('a boosted field that is not searched', () => {
  assert.deepEqual(ids(index.search('vita', { fields: ['title'], boost: { text: 2 } })), [3]);
});

test('boosts in the defaults', () => {
  const own = new MiniSearch({ fields: ['title', 'text'], searchOptions: { boost: { text: 3 } } });
  own.addAll(documents);
  assert.deepEqual(ids(own.search('vita', { fields: ['title'] })), [3]);
});

test('a boosted field that is searched', () => {
  const order = (boost) => index.search('vita', { boost }).map((result) => result.id);
  assert.deepEqual(order({ title: 50 }), [3, 1]);
  assert.deepEqual(order({ text: 50 }), [1, 3]);
});

test('some fields', () => {
  assert.deepEqual(ids(index.search('vita', { fields: ['title'] })), [3]);
  assert.deepEqual(ids(index.search('vita', { fields: ['text'] })), [1]);
});

test('all fields', () => {
  assert.deepEqual(ids(index.search('vita')), [1, 3]);
});

test('prefixes and typing mistakes', () => {
  assert.deepEqual(ids(index.search('comm', { prefix: true })), [1]);
  assert.deepEqual(ids(index.search('vitta', { fuzzy: 0.2 })), [1, 3]);
});

test('words that must all be there', () => {
  assert.deepEqual(ids(index.search('vita nova', { combineWith: 'AND' })), [3]);
});
