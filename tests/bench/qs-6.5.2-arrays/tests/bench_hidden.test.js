'use strict';

const test = require('node:test');
const assert = require('node:assert');
const qs = require('./lib');

const plain = (value) => JSON.parse(JSON.stringify(value));

test('empty brackets without arrays', () => {
  const result = qs.parse('a[]=b', { parseArrays: false });
  assert.equal(Array.isArray(result.a), false);
  assert.deepEqual(plain(result), { a: { 0: 'b' } });
});

test('nothing but empty brackets without arrays', () => {
  assert.deepEqual(plain(qs.parse('[]=b', { parseArrays: false })), { 0: 'b' });
});

test('a prototype is never set', () => {
  const { a } = qs.parse('a[__proto__][x]=1&a[y]=2', { allowPrototypes: true });
  assert.equal(Object.getPrototypeOf(a), Object.prototype);
  assert.equal(a.x, undefined);
  assert.equal(a.y, '2');
});

test('an index without arrays', () => {
  assert.deepEqual(plain(qs.parse('a[0]=b&a[1]=c', { parseArrays: false })), { a: { 0: 'b', 1: 'c' } });
});

test('arrays', () => {
  assert.deepEqual(qs.parse('a[]=b&a[]=c'), { a: ['b', 'c'] });
  assert.deepEqual(qs.parse('a[1]=c&a[0]=b'), { a: ['b', 'c'] });
  assert.deepEqual(qs.parse('[]=b'), { 0: 'b' });
});

test('objects', () => {
  assert.deepEqual(qs.parse('a[b][c]=d'), { a: { b: { c: 'd' } } });
  assert.deepEqual(qs.parse('a.b=c', { allowDots: true }), { a: { b: 'c' } });
});

test('nothing of the prototype', () => {
  assert.deepEqual(qs.parse('toString=1&a[hasOwnProperty]=2&b=3'), { b: '3' });
});
