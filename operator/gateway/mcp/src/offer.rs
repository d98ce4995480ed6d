//! The tools that a model is shown: named, with schemas that its provider takes, within bounds; the others are found
//! by a search.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::mcp::{McpRiskRule, McpServerSpec};
use codebutler_crds::wire::{McpPromptField, McpPromptForm, McpRisk, McpServer, McpTool, McpTools};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_mcp::session::ListedPrompt;
use codebutler_mcp::tools::{
    NamePatterns, PatternError, RiskJudgement, RiskOverride, SchemaBounds, SchemaDialect,
    SearchEntry, ServerTool, ToolRisk, choose_shown, clean_schema, judge_risk, name_tool,
    search_tools,
};
use futures::future::join_all;
use sha2::{Digest as _, Sha256};

use super::McpServers;
use super::access::{RoleServer, RoleServers};
use super::ask::explain_failure;
use super::masking::WordGuard;
use super::sessions::{DescribedList, ListWords, ServerList, ToolsOutlook};

/// Tools that are declared in each request of a model, and the bytes that they take.
const MOST_SHOWN: usize = 40;
const MOST_BYTES: usize = 32 << 10;
/// Tools that a search finds, unless it asks for another number, and at most.
const FOUND: usize = 8;
const MOST_FOUND: usize = 20;
/// The wait for servers that were never listed and can be reached: once for each, and for all of them together.
const PATIENCE: Duration = Duration::from_millis(1500);
/// A failure says for so long that a server is away.
const AWAY: Duration = Duration::from_secs(30);
/// Sentences about tools of one server that can't be used.
const SKIPPED: usize = 3;
/// Prompts of a server that are named.
const PROMPTS: usize = 50;
/// Characters of a name of a prompt or an argument, and of what it says of itself.
const NAME: usize = 100;
const ABOUT: usize = 120;
/// Bytes of what a server says of its use.
const INSTRUCTIONS: usize = 2 << 10;
/// Arguments of a prompt that are named.
const FIELDS: usize = 8;
/// Bytes of the tools that a search finds, and of the schemas of all tools of a list.
const FOUND_BYTES: usize = 64 << 10;
const SCHEMA_BYTES: usize = 4 << 20;

/// A server of a role, with what is known of its tools.
struct KnownServer<'a> {
    server: &'a RoleServer,
    outlook: ToolsOutlook,
    /// Words of its list, if that is known.
    words: Option<Arc<ListWords>>,
}

/// The form in which a model is shown tools.
struct ModelLook<'a> {
    dialect: SchemaDialect,
    redactor: &'a Arc<SecretRedactor>,
}

/// The words that a search looks for, and the number of tools it may find.
pub struct ToolSearch {
    /// Words to search for.
    pub find: String,
    /// Limit on the number of tools found.
    pub most: Option<usize>,
}

/// Tools that the caller's role may use; with a search, those that it finds among all of them.
///
/// # Errors
/// When the patterns that mask texts of the Repo are not known.
pub async fn list_tools(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    search: Option<&ToolSearch>,
) -> Result<McpTools, ApiError> {
    let Some(role) = RoleServers::of(servers, caller).await else {
        return Ok(add_version(McpTools::default()));
    };
    let redactor = servers.outcomes.redactor(caller).await?;
    let look = ModelLook { dialect: choose_dialect(caller), redactor: &redactor };
    let looks = role.servers.iter().map(async |server| {
        let outlook = servers.sessions.outlook(&server.place, PATIENCE).await;
        let words = match &outlook {
            ToolsOutlook::Known(list) => Some(describe_list(list, &server.place.spec, &look)),
            _ => None,
        };
        KnownServer { server, outlook, words }
    });
    let known = join_all(looks).await;
    let (mut tools, counts) = offer_tools(&role, &known, search);
    tools.notices.clone_from(&role.notices);
    for one in &known {
        if let ToolsOutlook::Failed(error) = &one.outlook {
            servers.sessions.post_trouble(&one.server.place, error);
        }
        let away = servers.sessions.failure(&one.server.place, AWAY);
        let reads = role.rights.reads(&one.server.place.spec.name);
        let mut server = describe_server(one, away.is_none(), reads);
        let count = counts.get(&server.name).copied().unwrap_or_default();
        if count > 0 || reads {
            let said = one.words.as_ref().map(|words| words.instructions.clone());
            server.instructions = said.unwrap_or_default();
        }
        if tools.hidden > 0 {
            // Whoever searches has to know among what.
            server.tools = count;
            server.about = one.words.as_ref().map(|words| words.about.clone()).unwrap_or_default();
        }
        tools.servers.push(server);
        let why = match &one.outlook {
            ToolsOutlook::Failed(error) => {
                let secrets = servers.sessions.known_secrets(&one.server.place);
                let plain = WordGuard::new(Arc::clone(&redactor), &secrets);
                explain_failure(servers, caller, &one.server.place, error, &plain).await
            }
            _ => String::new(),
        };
        tools.notices.extend(list_notices(one, &why));
    }
    Ok(add_version(tools))
}

/// The dialect that all models of a role take.
pub(crate) fn choose_dialect(caller: &ProvenCaller) -> SchemaDialect {
    dialect_of(caller.role.spec.model.talking().map(|(_, model)| model))
}

fn dialect_of<'a>(models: impl Iterator<Item = &'a str>) -> SchemaDialect {
    let models: Vec<String> = models.map(str::to_ascii_lowercase).collect();
    let any = |name: &str| models.iter().any(|model| model.contains(name));
    if any("gemini") {
        SchemaDialect::Gemini
    } else if any("moonshot") || any("kimi") {
        SchemaDialect::Moonshot
    } else {
        // Anthropic's dialect is the stricter one of the two others.
        SchemaDialect::Anthropic
    }
}

fn offer_tools(
    role: &RoleServers,
    known: &[KnownServer<'_>],
    search: Option<&ToolSearch>,
) -> (McpTools, HashMap<String, u32>) {
    let (mut tools, mut entries, mut counts) = (Vec::new(), Vec::new(), HashMap::new());
    for KnownServer { server, outlook, words } in known {
        let (ToolsOutlook::Known(list), Some(words)) = (outlook, words) else { continue };
        for (index, tool) in words.tools.iter().enumerate() {
            if server.filter.allows(&list.tools[index].name) && role.rights.allows(&tool.name) {
                let (name, description) = (tool.name.as_str(), tool.description.as_str());
                entries.push(SearchEntry { name, description, size: words.sizes[index] });
                tools.push(tool);
                *counts.entry(server.place.spec.name.clone()).or_default() += 1;
            }
        }
    }
    let chosen = match search {
        Some(search) => {
            let most = search.most.unwrap_or(FOUND).clamp(1, MOST_FOUND);
            fit_found(&entries, search_tools(&entries, &search.find, most))
        }
        None => choose_shown(&entries, &[], MOST_SHOWN, MOST_BYTES).shown,
    };
    let hidden = u32::try_from(tools.len() - chosen.len()).unwrap_or(u32::MAX);
    let tools = chosen.into_iter().map(|index| tools[index].clone()).collect();
    (McpTools { tools, hidden, ..McpTools::default() }, counts)
}

/// The best of the tools that were found, as many as fit: they stay in the role's requests.
fn fit_found(entries: &[SearchEntry<'_>], found: Vec<usize>) -> Vec<usize> {
    let mut left = FOUND_BYTES;
    let fits = |index: &usize| match left.checked_sub(entries[*index].size) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    found.into_iter().filter(fits).collect()
}

/// The words of a list. They are masked once for each list: a model is shown them at each turn.
fn describe_list(list: &ServerList, spec: &McpServerSpec, look: &ModelLook<'_>) -> Arc<ListWords> {
    let mut described = list.described.lock();
    if let Some(known) = &*described
        && known.dialect == look.dialect
        && Arc::ptr_eq(&known.redactor, look.redactor)
    {
        return Arc::clone(&known.words);
    }
    let guard = WordGuard::new(Arc::clone(look.redactor), &list.secrets);
    let (mut left, mut sizes) = (SCHEMA_BYTES, Vec::new());
    let describe = |tool| {
        let bounds = SchemaBounds {
            bytes: left.min(SchemaBounds::default().bytes),
            ..SchemaBounds::default()
        };
        let tool = describe_tool(tool, spec, &guard, (look.dialect, bounds));
        let schema = tool.schema.to_string().len();
        left = left.saturating_sub(schema);
        sizes.push(tool.name.len() + tool.description.len() + schema);
        tool
    };
    let tools = list.tools.iter().map(describe).collect();
    let prompts = list.prompts.iter().take(PROMPTS);
    let words = Arc::new(ListWords {
        tools,
        sizes,
        about: guard.line(&list.about, ABOUT),
        instructions: show_instructions(&list.instructions, &guard),
        prompts: prompts.clone().map(|one| show_prompt_name(&one.name, &guard)).collect(),
        prompt_forms: prompts.map(|prompt| describe_prompt(prompt, &guard)).collect(),
        notices: describe_gaps(list, &spec.name, &guard),
    });
    let (dialect, redactor) = (look.dialect, Arc::clone(look.redactor));
    *described = Some(DescribedList { dialect, redactor, words: Arc::clone(&words) });
    words
}

/// A server's words on its use. They are masked before they are cut, so that no part of a secret is at the edge.
fn show_instructions(words: &str, guard: &WordGuard) -> String {
    let text = guard.text(words.trim());
    match text.floor_char_boundary(INSTRUCTIONS) {
        end if end < text.len() => format!("{}…", &text[..end]),
        _ => text,
    }
}

fn describe_tool(
    tool: &ServerTool,
    spec: &McpServerSpec,
    guard: &WordGuard,
    (dialect, bounds): (SchemaDialect, SchemaBounds),
) -> McpTool {
    let clean = clean_schema(&tool.input_schema, dialect, bounds);
    let words = if tool.description.is_empty() {
        tool.title.as_deref().unwrap_or_default()
    } else {
        &tool.description
    };
    let reads = judge_tool(tool, spec).is_ok_and(|judged| judged.risk == ToolRisk::Runs);
    let mut description = guard.fenced(&spec.name, words);
    if clean.is_cut {
        description.push_str(
            "\nIts schema is too large to be shown in full: its server has arguments, or rules for \
                              them, that are left out here.",
        );
    }
    McpTool {
        name: name_tool(&spec.name, &tool.name),
        description,
        schema: guard.value(clean.schema),
        reads,
    }
}

/// The approval that a tool needs, as the Repo and its server say.
///
/// # Errors
/// A pattern of the Repo that can't be read: nothing of the server may run then.
pub fn judge_tool(tool: &ServerTool, spec: &McpServerSpec) -> Result<RiskJudgement, PatternError> {
    let read = |rule: &McpRiskRule| {
        let risk = match rule.risk {
            McpRisk::Read => ToolRisk::Runs,
            McpRisk::Visible => ToolRisk::AsksOnce,
            McpRisk::Destructive => ToolRisk::AsksAlways,
        };
        Ok(RiskOverride { tools: NamePatterns::new(&rule.tools)?, risk })
    };
    let overrides = spec.risk.iter().map(read).collect::<Result<Vec<_>, PatternError>>()?;
    Ok(judge_risk(tool, &overrides))
}

fn describe_server(known: &KnownServer<'_>, is_there: bool, reads: bool) -> McpServer {
    let name = known.server.place.spec.name.clone();
    let available = known.words.is_some() && is_there;
    let mut server = McpServer { name, available, ..McpServer::default() };
    if let (ToolsOutlook::Known(list), Some(words), true) = (&known.outlook, &known.words, reads) {
        server.prompts.clone_from(&words.prompts);
        server.prompt_forms.clone_from(&words.prompt_forms);
        server.resources = list.has_resources;
    }
    server
}

fn describe_prompt(prompt: &ListedPrompt, guard: &WordGuard) -> McpPromptForm {
    let about = |text: &Option<String>| guard.line(text.as_deref().unwrap_or_default(), ABOUT);
    // Required arguments come first.
    let mut fields: Vec<_> = prompt.arguments.iter().collect();
    fields.sort_by_key(|one| !one.is_required);
    let fields = fields.into_iter().take(FIELDS).map(|one| McpPromptField {
        name: show_prompt_name(&one.name, guard),
        about: about(&one.description),
        required: one.is_required,
    });
    McpPromptForm {
        name: show_prompt_name(&prompt.name, guard),
        about: about(&prompt.description),
        arguments: fields.collect(),
    }
}

/// The name of a prompt, or of an argument, by which a model knows it.
pub fn show_prompt_name(name: &str, guard: &WordGuard) -> String {
    guard.line(name, NAME)
}

/// `why`: the reason of a failure, masked.
fn list_notices(known: &KnownServer<'_>, why: &str) -> Vec<String> {
    let name = &known.server.place.spec.name;
    match &known.outlook {
        ToolsOutlook::Known(_) => {
            known.words.as_ref().map(|words| words.notices.clone()).unwrap_or_default()
        }
        ToolsOutlook::Failed(_) => {
            vec![format!("the server `{name}` can't be used now: {why}. Go on without its tools")]
        }
        ToolsOutlook::Asked => {
            let what = if known.server.place.spec.image.is_some() {
                "is starting"
            } else {
                "has not answered yet"
            };
            vec![format!("the server `{name}` {what}: its tools come with a later turn")]
        }
    }
}

/// Sentences about what of a server's list can't be used.
fn describe_gaps(list: &ServerList, name: &str, guard: &WordGuard) -> Vec<String> {
    let first = list.skipped.iter().take(SKIPPED);
    let mut notices: Vec<String> =
        first.map(|text| format!("server `{name}`: {}", guard.error(text))).collect();
    if list.skipped.len() > SKIPPED {
        let more = list.skipped.len() - SKIPPED;
        notices.push(format!("server `{name}`: {more} more of its tools can't be used"));
    }
    if list.is_cut {
        notices.push(format!("server `{name}`: it has more tools than can be read"));
    }
    notices
}

/// Sets the version, a hash that changes with anything else of the tools.
fn add_version(tools: McpTools) -> McpTools {
    let McpTools { tools, hidden, servers, notices, .. } = tools;
    let parts = serde_json::to_vec(&(&tools, hidden, &servers, &notices)).unwrap_or_default();
    let hash = Sha256::digest(parts);
    McpTools {
        version: hex::encode(&hash[..12]),
        unchanged: false,
        tools,
        hidden,
        servers,
        notices,
    }
}

#[cfg(test)]
mod tests {
    use codebutler_mcp::session::PromptArgument;
    use codebutler_mcp::tools::ToolHints;
    use serde_json::{Map, Value};

    use super::*;

    /// A regression: Kimi's provider refused each request of a role whose server has an argument without a type.
    #[test]
    fn schemas_are_written_for_the_models_that_read_them() {
        let dialect = |models: &[&str]| dialect_of(models.iter().copied());
        assert_eq!(dialect(&["anthropic/claude-opus-5"]), SchemaDialect::Anthropic);
        assert_eq!(dialect(&["openai/gpt-5.4", "moonshotai/k3"]), SchemaDialect::Moonshot);
        assert_eq!(dialect(&["Kimi-K3"]), SchemaDialect::Moonshot);
        assert_eq!(dialect(&["kimi-k3", "google/gemini-3.1-pro"]), SchemaDialect::Gemini);
    }

    #[test]
    fn a_list_is_masked_and_cleaned_once_for_each_redactor_and_dialect() {
        let tool = ServerTool {
            name: "search".to_owned(),
            title: None,
            description: "Knows pass-phrase-of-ours.".to_owned(),
            input_schema: Map::new(),
            output_schema: None,
            hints: ToolHints::default(),
            annotations: Value::Null,
        };
        let mut list = ServerList::of_tools(vec![tool]);
        let topic = PromptArgument {
            name: "topic".to_owned(),
            description: Some("Not pass-phrase-of-ours".to_owned()),
            is_required: true,
        };
        let prompt =
            ListedPrompt { name: "sum".to_owned(), description: None, arguments: vec![topic] };
        list.prompts.push(prompt);
        let spec = McpServerSpec { name: "docs".to_owned(), ..McpServerSpec::default() };
        let redactor = || Arc::new(SecretRedactor::new(&[]).0);
        let (one, other) = (redactor(), redactor());
        let describe =
            |dialect, redactor| describe_list(&list, &spec, &ModelLook { dialect, redactor });
        let words = describe(SchemaDialect::Anthropic, &one);
        let tool = &words.tools[0];
        assert_eq!(tool.name, "mcp__docs__search");
        assert!(tool.description.contains("Knows [redacted:secret]."), "{tool:?}");
        let size = tool.name.len() + tool.description.len() + tool.schema.to_string().len();
        assert_eq!(words.sizes, [size]);
        assert_eq!(words.prompt_forms[0].arguments[0].about, "Not [redacted:secret]");
        assert_eq!(words.instructions, "Search first, with [redacted:secret].");
        assert_eq!(words.notices.len(), 2, "{words:?}");
        assert!(Arc::ptr_eq(&words, &describe(SchemaDialect::Anthropic, &one)));
        assert!(!Arc::ptr_eq(&words, &describe(SchemaDialect::Anthropic, &other)));
        assert!(!Arc::ptr_eq(&words, &describe(SchemaDialect::Gemini, &one)));
    }
}
