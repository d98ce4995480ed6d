// What OpenRouter's own TypeScript package declares, and whether answers fit its types.
//
//   openrouter_sdk.mjs declared               prints the names that CodeButler's readers have to know
//   openrouter_sdk.mjs fits TYPE FILE …       fails with each field of each file that does not fit
//   openrouter_sdk.mjs ask URL KEY MODEL      lists the models and asks one, as a program that uses the package
//
// Run where `@openrouter/sdk` is installed: NODE_PATH does not count for modules, so the package is imported by
// its path, in OPENROUTER_SDK.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const packaged = (file) => import(pathToFileURL(path.join(process.env.OPENROUTER_SDK, "esm", file)));
const models = await packaged("models/index.js");

const fields = (schema) => Object.keys((schema.in ?? schema).shape).sort();
const fit = (type, value) => {
  const result = models[`${type}$inboundSchema`].safeParse(value);
  return result.success ? [] : result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
};

const [task, ...args] = process.argv.slice(2);
if (task === "declared") {
  const declared = {
    ApiErrorType: Object.values(models.ApiErrorType),
    UtcDay: Object.values(models.UtcDay),
    PricingOverride: fields(models.PricingOverride$inboundSchema),
    PublicPricing: fields(models.PublicPricing$inboundSchema),
    Model: fields(models.Model$inboundSchema),
  };
  console.log(JSON.stringify(declared, null, 1));
} else if (task === "fits") {
  const [type, ...files] = args;
  const faults = files.flatMap((file) => fit(type, JSON.parse(fs.readFileSync(file))).map((fault) => `${file}: ${fault}`));
  for (const fault of faults) console.error(fault);
  process.exit(faults.length ? 1 : 0);
} else {
  const [serverURL, apiKey, model] = args;
  const { OpenRouter } = await packaged("index.js");
  const client = new OpenRouter({ apiKey, serverURL });
  const list = await client.models.list({});
  const listed = (list.data ?? list.result?.data).map((entry) => entry.id);
  if (!listed.includes(model)) throw new Error(`${model} is not in ${listed}`);
  const messages = [{ role: "user", content: "hello" }];
  const answer = await client.chat.send({ chatRequest: { model, messages, stream: false } });
  console.log(answer.choices[0].message.content);
}
