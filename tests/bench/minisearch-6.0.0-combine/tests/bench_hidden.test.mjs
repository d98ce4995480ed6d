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

const tree = {
  queries: [
    { fields: ['text'], queries: ['vita'] },
    { fields: ['title'], queries: ['promessi'] },
  ],
};

test('the option combines a tree', () => {
  assert.deepEqual(ids(index.search(tree, { combineWith: 'AND' })), []);
});

test('the option combines a tree that finds something', () => {
  const both = { queries: [{ queries: ['vita'] }, { queries: ['nova'] }] };
  assert.deepEqual(ids(index.search(both, { combineWith: 'AND' })), [3]);
});

test('without the option any will do', () => {
  assert.deepEqual(ids(index.search(tree)), [1, 2]);
});

test('what the tree says wins', () => {
  assert.deepEqual(ids(index.search({ ...tree, combineWith: 'OR' }, { combineWith: 'AND' })), [1, 2]);
  assert.deepEqual(ids(index.search({ ...tree, combineWith: 'AND' })), []);
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
