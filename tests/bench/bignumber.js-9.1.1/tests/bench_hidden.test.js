'use strict';

const test = require('node:test');
const assert = require('node:assert');
const BigNumber = require('./bignumber.js');

const min = (...all) => BigNumber.minimum(...all).valueOf();
const max = (...all) => BigNumber.maximum(...all).valueOf();

test('the least of two zeroes', () => {
  assert.equal(min(0, -0), '-0');
  assert.equal(BigNumber.min('0', '-0', 1).valueOf(), '-0');
});

test('the greatest of two zeroes', () => {
  assert.equal(max(-0, 0), '0');
  assert.equal(BigNumber.max('-0', '0', '-1').valueOf(), '0');
});

test('zeroes in the other order', () => {
  assert.equal(min(-0, 0), '-0');
  assert.equal(max(0, -0), '0');
});

test('numbers', () => {
  assert.equal(min(3, '1', new BigNumber(2)), '1');
  assert.equal(max(3, '1', new BigNumber(2)), '3');
  assert.equal(min('-1e-20', 0, '1e20'), '-1e-20');
});

test('not a number and infinity', () => {
  assert.equal(min(1, NaN, 0), 'NaN');
  assert.equal(max(NaN, 1), 'NaN');
  assert.equal(min(-Infinity, 0), '-Infinity');
  assert.equal(max(Infinity, 0), 'Infinity');
});

test('one argument', () => {
  assert.equal(min('-0'), '-0');
  assert.equal(max('7.5'), '7.5');
});
