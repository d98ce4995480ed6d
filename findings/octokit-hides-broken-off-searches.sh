#!/usr/bin/env bash
# GitHub's own client for JavaScript (npm @octokit/plugin-paginate-rest 16.0.0) hands over a search that GitHub broke off as if it were whole: GitHub answers
# 200 with `incomplete_results: true`, and `octokit.paginate` returns the bare list of what was found until then, without that word and without
# `total_count`. Only `octokit.paginate.iterator` has them, as properties of each page's array. A bot that opens an issue where a search finds
# none opens a second one. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @octokit/core@7.0.8 @octokit/plugin-paginate-rest@16.0.0 >/dev/null
cat >search.mjs <<'JS'
import assert from "node:assert";
import { createServer } from "node:http";
import { Octokit } from "@octokit/core";
import { paginateRest } from "@octokit/plugin-paginate-rest";

const server = createServer((request, response) => {
  const page = Number(new URL(request.url, "http://x").searchParams.get("page") ?? 1);
  response.setHeader("Content-Type", "application/json");
  if (page < 2) response.setHeader("Link", `<${baseUrl}/search/issues?q=price&page=${page + 1}>; rel="next"`);
  response.end(JSON.stringify({ total_count: 5, incomplete_results: true, items: [{ number: page }] }));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const baseUrl = `http://127.0.0.1:${server.address().port}`;
const octokit = new (Octokit.plugin(paginateRest))({ baseUrl });

const plain = await octokit.request("GET /search/issues", { q: "price" });
console.log("request", JSON.stringify(plain.data));
assert.equal(plain.data.incomplete_results, true);
const found = await octokit.paginate("GET /search/issues", { q: "price" });
console.log("paginate", found, found.incomplete_results, found.total_count);
assert.deepEqual(Object.entries(found), [["0", { number: 1 }], ["1", { number: 2 }]]);
for await (const { data } of octokit.paginate.iterator("GET /search/issues", { q: "price" })) {
  console.log("iterator", data);
  assert.deepEqual([data.incomplete_results, data.total_count], [true, 5]);
}
server.close();
JS
node search.mjs
