// The official client beside a server of its own: `list` answers with its tools, any other line is echoed by the
// server, and answered with the milliseconds that the call took.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "figures", version: "1" });
await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "list") {
    console.log(JSON.stringify((await client.listTools()).tools));
    continue;
  }
  const begun = performance.now();
  const result = await client.callTool({ name: "echo", arguments: { message: line } });
  const took = performance.now() - begun;
  console.log(JSON.stringify(result).includes(line) ? took : "null");
}
await client.close();
