'use strict';

const test = require('node:test');
const assert = require('node:assert');
const picomatch = require('.');

const matches = (pattern, names) => {
  const isMatch = picomatch(pattern);
  return names.filter((name) => isMatch(name));
};

test('braces after a negated group', () => {
  assert.deepEqual(matches('/!(*.d).{ts,tsx}', ['/a.ts', '/a.tsx', '/a.d.ts', '/a.d.tsx', '/a.js']), ['/a.ts', '/a.tsx']);
});

test('braces after a negated group in any folder', () => {
  assert.deepEqual(matches('**/!(*.d).{ts,tsx}', ['src/a.ts', 'src/b/c.tsx', 'src/a.d.ts']), ['src/a.ts', 'src/b/c.tsx']);
});

test('a group after a negated group', () => {
  assert.deepEqual(matches('**/!(*-dbg).@(js)', ['dir/foo.js', 'dir/foo-dbg.js']), ['dir/foo.js']);
});

test('one extension after a negated group', () => {
  assert.deepEqual(matches('/!(*.d).ts', ['/a.ts', '/a.d.ts', '/a.js']), ['/a.ts']);
  assert.deepEqual(matches('**/!(*.d).ts', ['src/a.ts', 'src/a.d.ts']), ['src/a.ts']);
});

test('a negated group alone', () => {
  assert.deepEqual(matches('!(a|b)', ['a', 'b', 'c']), ['c']);
});

test('braces alone', () => {
  assert.deepEqual(matches('*.{ts,tsx}', ['a.ts', 'a.tsx', 'a.js']), ['a.ts', 'a.tsx']);
});

test('other groups', () => {
  assert.deepEqual(matches('@(a|b).js', ['a.js', 'b.js', 'c.js']), ['a.js', 'b.js']);
  assert.deepEqual(matches('+(a).js', ['a.js', 'aa.js', 'b.js']), ['a.js', 'aa.js']);
});
