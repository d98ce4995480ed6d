'use strict';

const test = require('node:test');
const assert = require('node:assert');
const utils = require('./lib/utils');
const qs = require('./lib');

test('an array into null', () => {
  assert.deepEqual(utils.merge(null, [42]), [null, 42]);
});

test('a value into null', () => {
  assert.deepEqual(utils.merge(null, true), [null, true]);
});

test('a value into an object without options', () => {
  assert.deepEqual(utils.merge({ a: 1 }, 'b'), { a: 1, b: true });
});

test('a value into a list with an object in its place', () => {
  assert.deepEqual(utils.merge([{ a: 'b' }], ['c']), [{ a: 'b' }, 'c']);
});

test('objects', () => {
  assert.deepEqual(utils.merge({ a: 'b' }, { a: 'c' }), { a: ['b', 'c'] });
  assert.deepEqual(utils.merge({ a: { b: 1 } }, { a: { c: 2 } }), { a: { b: 1, c: 2 } });
});

test('lists', () => {
  assert.deepEqual(utils.merge(['a'], ['b']), ['a', 'b']);
  assert.deepEqual(utils.merge([{ a: 'b' }], [{ c: 'd' }]), [{ a: 'b', c: 'd' }]);
  assert.deepEqual(utils.merge(['a'], 'b'), ['a', 'b']);
});

test('queries', () => {
  assert.deepEqual(qs.parse('a[b]=1&a[c]=2&d=3&d=4'), { a: { b: '1', c: '2' }, d: ['3', '4'] });
  assert.equal(qs.stringify({ a: [1, 2], b: null }), 'a%5B0%5D=1&a%5B1%5D=2&b=');
});
