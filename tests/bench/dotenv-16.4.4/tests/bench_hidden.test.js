'use strict';

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const dotenv = require('./lib/main.js');

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'dotenv-'));
process.chdir(dir);
fs.writeFileSync('.env', 'FROM=default\nONLY=default\n');
fs.writeFileSync('a.env', 'FROM=a\nA=1\n');
fs.writeFileSync('b.env', 'FROM=b\nB=2\n');

const load = (options) => {
  const processEnv = {};
  const result = dotenv.config({ ...options, processEnv });
  return { processEnv, error: result.error };
};

test('a path that is not there', () => {
  const { processEnv, error } = load({ path: 'typo.env' });
  assert.deepEqual(processEnv, {});
  assert.equal(error.code, 'ENOENT');
});

test('a list of paths that are not there', () => {
  const { processEnv, error } = load({ path: ['typo.env', 'other.env'] });
  assert.deepEqual(processEnv, {});
  assert.equal(error.code, 'ENOENT');
});

test('a list with one that is not there', () => {
  const { processEnv, error } = load({ path: ['a.env', 'typo.env'] });
  assert.deepEqual(processEnv, { FROM: 'a', A: '1' });
  assert.equal(error.code, 'ENOENT');
});

test('a path', () => {
  const { processEnv, error } = load({ path: 'a.env' });
  assert.deepEqual(processEnv, { FROM: 'a', A: '1' });
  assert.equal(error, undefined);
});

test('a list of paths', () => {
  const { processEnv, error } = load({ path: ['a.env', 'b.env'] });
  assert.deepEqual(processEnv, { FROM: 'a', A: '1', B: '2' });
  assert.equal(error, undefined);
});

test('a list of paths with override', () => {
  assert.equal(load({ path: ['a.env', 'b.env'], override: true }).processEnv.FROM, 'b');
});

test('no path', () => {
  const { processEnv, error } = load({});
  assert.deepEqual(processEnv, { FROM: 'default', ONLY: 'default' });
  assert.equal(error, undefined);
});
