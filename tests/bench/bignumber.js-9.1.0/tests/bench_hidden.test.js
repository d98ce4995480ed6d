'use strict';

const test = require('node:test');
const assert = require('node:assert');
const BigNumber = require('./bignumber.js');

const pow = (base, exponent) => new BigNumber(base).exponentiatedBy(exponent).valueOf();
const HUGE_ODD = '9007199254740993';
const HUGE_EVEN = '9007199254740994';

test('zero to a huge negative power', () => {
  assert.equal(pow(0, `-${HUGE_ODD}`), 'Infinity');
  assert.equal(pow(0, `-${HUGE_EVEN}`), 'Infinity');
});

test('negative zero to a huge negative power', () => {
  assert.equal(pow('-0', `-${HUGE_ODD}`), '-Infinity');
  assert.equal(pow('-0', `-${HUGE_EVEN}`), 'Infinity');
});

test('zero to a huge power', () => {
  assert.equal(pow(0, HUGE_ODD), '0');
  assert.equal(pow('-0', HUGE_ODD), '-0');
  assert.equal(pow('-0', HUGE_EVEN), '0');
});

test('zero to small powers', () => {
  assert.equal(pow(0, -5), 'Infinity');
  assert.equal(pow('-0', -5), '-Infinity');
  assert.equal(pow(0, 5), '0');
  assert.equal(pow(0, 0), '1');
});

test('one to a huge power', () => {
  assert.equal(pow(1, `-${HUGE_ODD}`), '1');
  assert.equal(pow(-1, HUGE_ODD), '-1');
});

test('ordinary powers', () => {
  assert.equal(pow(2, 10), '1024');
  assert.equal(pow('1.5', 3), '3.375');
  assert.equal(pow(2, -2), '0.25');
});
