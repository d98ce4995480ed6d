#!/usr/bin/env bash
# `edit_file` of the official MCP server `filesystem` writes a whole file anew with LF where it had CRLF, whatever line was edited, and answers
# with a diff in which only that line differs: both sides of it are converted before they are compared. Git then shows every line as changed.
# A second place of `oldText` stays as it is, and nothing says so. `write_file` keeps what it is given. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/sdk@1.32.2 >/dev/null
mkdir files
printf 'one\r\ntwo\r\nthree\r\ntwo\r\n' >files/a.txt
cat >client.mjs <<'JS'
import { readFileSync, realpathSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const folder = realpathSync("files");
const server = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
const client = new Client({ name: "finding", version: "1" });
await client.connect(new StdioClientTransport({ command: "node", args: [server, folder], stderr: "ignore" }));
const edits = [{ oldText: "two", newText: "2" }];
const answer = await client.callTool({ name: "edit_file", arguments: { path: `${folder}/a.txt`, edits } });
await client.close();
const differ = answer.content[0].text.split("\n").filter((line) => /^[-+](?![-+])/.test(line));
const file = readFileSync(`${folder}/a.txt`, "utf8");
console.log(`server-filesystem 2026.8.31: the diff has ${JSON.stringify(differ)}, the file is ${JSON.stringify(file)}`);
const isAsSeen = !answer.isError && differ.join() === "-two,+2" && file === "one\n2\nthree\ntwo\n";
process.exit(isAsSeen ? 0 : 1);
JS
node client.mjs
