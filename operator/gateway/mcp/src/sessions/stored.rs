//! Lists of tools on disk, for a gateway that begins anew: what a server had is offered without asking or starting it,
//! as if this process had read it long ago. Words are masked before they are written; names that are masked are left
//! out, since nothing can be called by them.

use std::sync::Arc;
use std::time::Instant;

use codebutler_mcp::session::ListedPrompt;
use codebutler_mcp::tools::ServerTool;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::lists::OLD;
use super::{ServerList, SessionPool};
use crate::list_store::ListVersion;
use crate::masking::WordGuard;
use crate::session_key::{ServerPlace, SessionKey};

/// Form of the files: those of another one are not read.
const FORM: u32 = 1;
/// Bytes of a file's name, as a hash.
const NAME: usize = 16;

/// A list as it is written.
#[derive(Serialize, Deserialize)]
struct StoredList {
    form: u32,
    /// Fingerprint of the entry in the Repo whose server gave the list.
    spec: String,
    tools: Vec<ServerTool>,
    skipped: Vec<String>,
    is_cut: bool,
    prompts: Vec<ListedPrompt>,
    has_resources: bool,
    version: String,
    about: String,
    /// Earlier versions have not kept them.
    #[serde(default)]
    instructions: String,
}

impl SessionPool {
    /// Writes the list of any of a server's sessions for the next process. `version` is from when it became the known
    /// one: tasks that write may overtake each other.
    pub(super) fn store_list(
        &self,
        key: &SessionKey,
        fingerprint: &str,
        (version, list): (ListVersion, &Arc<ServerList>),
    ) {
        let parts = &self.0;
        if !parts.stored.is_kept() {
            return;
        }
        let Some(repo) = parts.context.repo(&key.namespace, &key.repo) else { return };
        let guard = WordGuard::new(parts.context.redactors.of(&repo), &list.secrets);
        let (store, name) = (parts.stored.clone(), name_file(&key.of_all()));
        let (spec, list) = (fingerprint.to_owned(), Arc::clone(list));
        drop(spawn_blocking(move || {
            if let Some(written) = write_form(&list, spec, &guard) {
                store.write(&name, version, &written);
            }
        }));
    }

    /// The list that an earlier process has written, if its server had this entry. It is looked for once.
    pub(super) async fn recall_list(&self, place: &ServerPlace) -> Option<Arc<ServerList>> {
        let (key, fingerprint) = (place.key.of_all(), place.fingerprint());
        if !self.0.stored.is_kept() || self.has_recalled(&key, &fingerprint) {
            return None;
        }
        // Whoever asks meanwhile waits for the file: without it, they would start the server.
        let _turn = self.0.recalling.lock().await;
        if let Some(list) = self.known_list(place) {
            return Some(list);
        }
        if self.has_recalled(&key, &fingerprint) {
            return None;
        }
        let (store, name, spec) = (self.0.stored.clone(), name_file(&key), fingerprint.clone());
        let read = spawn_blocking(move || read_form(&store.read(&name)?, &spec)).await;
        let list = read.ok().flatten().map(Arc::new);
        let mut state = self.0.state.lock();
        state.recalled.insert(key.clone(), fingerprint.clone());
        Some(keep_recalled(&mut state.lists, key, (fingerprint, list?)))
    }

    fn has_recalled(&self, key: &SessionKey, fingerprint: &str) -> bool {
        self.0.state.lock().recalled.get(key).is_some_and(|of| *of == *fingerprint)
    }
}

/// Keeps a list that was read from the disk, unless its server has given one meanwhile; returns the one that holds.
fn keep_recalled(
    lists: &mut RecentMap<SessionKey, (String, Arc<ServerList>)>,
    key: SessionKey,
    recalled: (String, Arc<ServerList>),
) -> Arc<ServerList> {
    if let Some((of, newer)) = lists.get(&key)
        && *of == recalled.0
    {
        return Arc::clone(newer);
    }
    let list = Arc::clone(&recalled.1);
    lists.insert(key, recalled);
    list
}

fn name_file(key: &SessionKey) -> String {
    let parts = json!([key.namespace, key.repo, key.server]);
    hex::encode(&Sha256::digest(parts.to_string())[..NAME])
}

fn write_form(list: &ServerList, spec: String, guard: &WordGuard) -> Option<Vec<u8>> {
    let is_plain = |name: &str| guard.mask(name) == name;
    let tools: Vec<&ServerTool> = list.tools.iter().filter(|tool| is_plain(&tool.name)).collect();
    let prompts: Vec<&ListedPrompt> =
        list.prompts.iter().filter(|prompt| is_plain(&prompt.name)).collect();
    let words = json!({
        "tools": tools,
        "skipped": list.skipped,
        "is_cut": list.is_cut,
        "prompts": prompts,
        "has_resources": list.has_resources,
        "version": list.version,
        "about": list.about,
        "instructions": list.instructions,
    });
    let mut form = mask_words(words, guard);
    // The hash is ours, and would be masked as a secret.
    form["form"] = FORM.into();
    form["spec"] = spec.into();
    serde_json::to_vec(&form).ok()
}

/// Masks all texts of a value, names of fields included.
fn mask_words(value: Value, guard: &WordGuard) -> Value {
    match value {
        Value::String(text) => Value::String(guard.mask(&text)),
        Value::Array(items) => items.into_iter().map(|item| mask_words(item, guard)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields: Map<String, Value> =
                fields.map(|(name, value)| (guard.mask(&name), mask_words(value, guard))).collect();
            Value::Object(fields)
        }
        other => other,
    }
}

fn read_form(bytes: &[u8], spec: &str) -> Option<ServerList> {
    let stored: StoredList = serde_json::from_slice(bytes).ok()?;
    if stored.form != FORM || stored.spec != spec {
        return None;
    }
    let now = Instant::now();
    Some(ServerList {
        tools: stored.tools,
        skipped: stored.skipped,
        is_cut: stored.is_cut,
        prompts: stored.prompts,
        has_resources: stored.has_resources,
        version: stored.version,
        about: stored.about,
        instructions: stored.instructions,
        secrets: Vec::new(),
        described: Mutex::default(),
        // It is as old as lists can be: whoever can be asked without a start is asked again.
        at: Mutex::new(now.checked_sub(OLD * 2).unwrap_or(now)),
    })
}

#[cfg(test)]
mod tests {
    use codebutler_gateway_core::redact::SecretRedactor;
    use codebutler_mcp::tools::ToolHints;

    use super::*;

    fn tool(name: &str, description: &str) -> ServerTool {
        let schema = json!({"type": "object", "properties": {"q": {"description": description}}});
        ServerTool {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: schema.as_object().unwrap().clone(),
            output_schema: None,
            hints: ToolHints { read_only: true, ..ToolHints::default() },
            annotations: json!({"readOnlyHint": true}),
        }
    }

    #[test]
    fn a_list_is_read_back_for_its_own_entry_and_without_a_secret() {
        let spec = hex::encode(Sha256::digest("entry"));
        let says = "Uses pass-phrase-of-ours.";
        let all = ServerList::of_tools(vec![
            tool("search", says),
            tool("pass-phrase-of-ours", "Named badly."),
        ]);
        let redactor = Arc::new(SecretRedactor::new(&[]).0);
        let guard = WordGuard::new(redactor, &all.secrets);
        let written = write_form(&all, spec.clone(), &guard).unwrap();
        assert!(!String::from_utf8_lossy(&written).contains("pass-phrase"));
        let read = read_form(&written, &spec).unwrap();
        assert_eq!(read.tools, [tool("search", "Uses [redacted:secret].")]);
        assert!(read.has_same_words(&ServerList {
            tools: read.tools.clone(),
            instructions: "Search first, with [redacted:secret].".to_owned(),
            secrets: Vec::new(),
            ..ServerList::of_tools(Vec::new())
        }));
        assert!(read.age() > OLD, "a server that can be asked is asked again");
        assert!(read_form(&written, "another entry").is_none());
        assert!(read_form(&written[..written.len() - 1], &spec).is_none(), "cut off");
    }

    #[test]
    fn a_list_that_its_server_gives_while_the_disk_is_read_stays() {
        let (namespace, repo, server) = ("team".to_owned(), "shop".to_owned(), "docs".to_owned());
        let key = SessionKey { namespace, repo, server, thread: None };
        let list = |name: &str| Arc::new(ServerList::of_tools(vec![tool(name, "Finds.")]));
        let (given, stored) = (list("given"), list("stored"));
        let mut lists = RecentMap::new(4);
        lists.insert(key.clone(), ("entry".to_owned(), Arc::clone(&given)));
        let mut recall = |entry: &str| {
            keep_recalled(&mut lists, key.clone(), (entry.to_owned(), Arc::clone(&stored)))
        };
        assert!(Arc::ptr_eq(&recall("entry"), &given));
        assert!(Arc::ptr_eq(&recall("another entry"), &stored), "that list is of an earlier entry");
    }
}
