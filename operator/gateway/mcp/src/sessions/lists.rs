//! Lists of tools: read by the session's own task when they change, by a call that finds one old, and in the
//! background for those that only want to know the tools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use codebutler_crds::wire::{McpPromptForm, McpTool};
use codebutler_gateway_core::mcp_facts::SessionOutcome;
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_mcp::session::ListedPrompt;
use codebutler_mcp::tools::{SchemaDialect, ServerTool, assign_names};
use codebutler_mcp::{McpError, ServerSession};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{AGAIN, OpenSession, SessionPool, SessionUse, SharedFailure, is_sign_in};
use crate::check::filter_tools;
use crate::link::LinkError;
use crate::masking::describe_left_out;
use crate::session_key::{ServerPlace, SessionKey};
use crate::sign_in::has_signed_in;

/// A list may be so old: a server that can't announce changes is asked again after it.
const FRESH: Duration = Duration::from_mins(1);
/// The list of a remote server without a session is read anew after it.
pub(super) const OLD: Duration = Duration::from_mins(10);
/// A failure that is older says nothing about a server any more.
const STALE: Duration = Duration::from_mins(10);
/// The same for a server that announces changes: an announcement can be lost on its way.
const ANNOUNCED: Duration = Duration::from_mins(10);
/// Time limit for all pages of a server's lists together, or that of one call where it is longer.
const LISTING: Duration = Duration::from_secs(30);

/// Tools and prompts of a server, as last read.
#[derive(Debug)]
pub struct ServerList {
    pub tools: Vec<ServerTool>,
    /// A sentence for each tool that can't be used.
    pub skipped: Vec<String>,
    /// True if the server has more tools than were read.
    pub is_cut: bool,
    pub prompts: Vec<ListedPrompt>,
    /// True if it has resources.
    pub has_resources: bool,
    /// The server's own version.
    pub version: String,
    /// The server's description of its purpose.
    pub about: String,
    /// The server's description of its use.
    pub instructions: String,
    /// Values that it was sent as credentials, to be masked in its words.
    pub secrets: Vec<String>,
    /// The list as models are shown it.
    pub described: Mutex<Option<DescribedList>>,
    /// Time of the latest reading.
    pub(super) at: Mutex<Instant>,
}

impl ServerList {
    /// Time since it was last read.
    pub(super) fn age(&self) -> Duration {
        self.at.lock().elapsed()
    }

    /// True if another reading has brought the same: what was made of this one still holds.
    pub(super) fn has_same_words(&self, other: &Self) -> bool {
        let facts = |list: &Self| (list.is_cut, list.has_resources);
        facts(self) == facts(other)
            && self.version == other.version
            && self.about == other.about
            && self.instructions == other.instructions
            && self.skipped == other.skipped
            && self.prompts == other.prompts
            && self.secrets == other.secrets
            && self.tools == other.tools
    }

    #[cfg(test)]
    pub(crate) fn of_tools(tools: Vec<ServerTool>) -> Self {
        Self {
            tools,
            skipped: vec!["a tool has no `name`".to_owned()],
            is_cut: true,
            prompts: Vec::new(),
            has_resources: true,
            version: "1.2.3".to_owned(),
            about: "Finds issues.".to_owned(),
            instructions: "Search first, with pass-phrase-of-ours.".to_owned(),
            secrets: vec!["pass-phrase-of-ours".to_owned()],
            described: Mutex::default(),
            at: Mutex::new(Instant::now()),
        }
    }

    /// Notes that the server has just given the same list again.
    pub(super) fn renew(&self) {
        *self.at.lock() = Instant::now();
    }
}

/// A list as models of one dialect are shown it.
#[derive(Clone, Debug)]
pub struct DescribedList {
    /// The dialect of the schemas.
    pub dialect: SchemaDialect,
    /// Redactor that has masked its words.
    pub redactor: Arc<SecretRedactor>,
    pub words: Arc<ListWords>,
}

/// Words of a list, masked, with schemas that models take.
#[derive(Debug)]
pub struct ListWords {
    /// Tools that can be used, in the order of the list.
    pub tools: Vec<McpTool>,
    /// Bytes that the declaration of each of them takes.
    pub sizes: Vec<usize>,
    /// Purpose of the server, in its own words.
    pub about: String,
    /// Directions for the use of its tools, in its own words.
    pub instructions: String,
    /// Names of its prompts, as a model knows them.
    pub prompts: Vec<String>,
    /// Its prompts with what they are filled in with.
    pub prompt_forms: Vec<McpPromptForm>,
    /// Sentences about what is left out.
    pub notices: Vec<String>,
}

/// The tools of a server as far as they are known without waiting for it.
pub enum ToolsOutlook {
    /// The latest list of tools.
    Known(Arc<ServerList>),
    /// The server can't be used.
    Failed(SharedFailure),
    /// The list is being read.
    Asked,
}

impl SessionPool {
    /// The latest list of a server, of this Thread's session or another one of the same server.
    pub fn known_list(&self, place: &ServerPlace) -> Option<Arc<ServerList>> {
        let fingerprint = place.fingerprint();
        let mut state = self.0.state.lock();
        for key in [place.key.clone(), place.key.of_all()] {
            if let Some((of, list)) = state.lists.get(&key)
                && *of == fingerprint
            {
                return Some(Arc::clone(list));
            }
        }
        None
    }

    /// Returns what is known of a server's tools, after waiting for at most `patience`. A server that was never
    /// asked, or long ago, is asked in the background.
    pub async fn outlook(&self, place: &ServerPlace, patience: Duration) -> ToolsOutlook {
        let known = match self.known_list(place) {
            Some(list) => Some(list),
            None => self.recall_list(place).await,
        };
        if let Some(list) = known {
            self.refresh_later(place, list.age());
            // A server that is away now keeps its tools: a call says what is wrong.
            return ToolsOutlook::Known(list);
        }
        if let Some(failure) = self.failure(place, STALE)
            && !self.is_over(place, &failure).await
        {
            if matches!(*failure, LinkError::Starting(_)) {
                // Nothing is wrong with the server, so its start goes on for as long as a role wants its tools.
                drop(self.ask_later(place));
                return ToolsOutlook::Asked;
            }
            // A server that is away is not waited for again, only asked in the background.
            if self.failure(place, AGAIN).is_none() {
                drop(self.ask_later(place));
            }
            return ToolsOutlook::Failed(failure);
        }
        match timeout(self.patience_left(place, patience), self.ask_later(place)).await {
            Ok(Ok(Some(Ok(list)))) => ToolsOutlook::Known(list),
            Ok(Ok(Some(Err(failure)))) => ToolsOutlook::Failed(failure),
            _ => ToolsOutlook::Asked,
        }
    }

    /// True if a person has signed in since.
    async fn is_over(&self, place: &ServerPlace, failure: &LinkError) -> bool {
        let (LinkError::SignIn { at, .. } | LinkError::Scope { at, .. }) = failure else {
            return false;
        };
        has_signed_in(&self.0.context, place, *at).await
    }

    /// Reads a list anew that is old. Nothing is started for that but a session with a remote server.
    fn refresh_later(&self, place: &ServerPlace, age: Duration) {
        if age < FRESH {
            return;
        }
        let open = self.0.state.lock().open.get(&place.key).cloned();
        if let Some(open) = open {
            let pool = self.clone();
            drop(self.0.tasks.spawn(async move { pool.current_list(&open).await.map(drop) }));
        } else if place.spec.url.is_some() && age > OLD && self.failure(place, AGAIN).is_none() {
            drop(self.ask_later(place));
        }
    }

    /// Reads a list in the background; concurrent requests share the session's start.
    fn ask_later(
        &self,
        place: &ServerPlace,
    ) -> tokio::task::JoinHandle<Option<Result<Arc<ServerList>, SharedFailure>>> {
        let (pool, place) = (self.clone(), place.clone());
        self.0.tasks.spawn(async move { pool.ask(&place).await })
    }

    /// Opens the session and reads the list, if it is not known as it is now.
    ///
    /// # Errors
    /// As opening does, or because the list can't be read.
    pub async fn ask(&self, place: &ServerPlace) -> Result<Arc<ServerList>, SharedFailure> {
        let opened = self.open_listed(place, Duration::MAX).await;
        self.0.state.lock().asked.remove(&place.key);
        let (_open, listed) = opened?;
        if let Ok(list) = &listed {
            self.report(place, describe_list(place, list));
        }
        listed.map_err(|error| self.note_failure(place, error))
    }

    /// Reports that a list can't be read, and keeps the reason.
    fn note_failure(&self, place: &ServerPlace, error: McpError) -> SharedFailure {
        let error = Arc::new(LinkError::of_session(error, &place.spec));
        self.report(place, SessionOutcome::Failed(error.to_string()));
        self.post_trouble(place, &error);
        let failed = (Instant::now(), place.fingerprint(), Arc::clone(&error));
        self.0.state.lock().failed.insert(place.key.clone(), failed);
        error
    }

    /// An open session with its list as it is now. A session that can't list is replaced once: credentials that were
    /// replaced are in force with a new one, so is a server that came back, and one failure of a remote server is no
    /// news. The wait for a list takes at most `patience`.
    ///
    /// # Errors
    /// As opening does, or because the list is still being read.
    pub async fn open_listed(
        &self,
        place: &ServerPlace,
        patience: Duration,
    ) -> Result<(SessionUse, Result<Arc<ServerList>, McpError>), SharedFailure> {
        let late = |_| self.failure(place, STALE).unwrap_or_else(|| unlisted(patience));
        let open = self.open(place).await?;
        let listed = timeout(patience, self.list_of(place, &open)).await.map_err(late)?;
        let is_news = |error: &McpError| {
            let is_remote = place.spec.url.is_some();
            !(is_sign_in(error) || error.is_lost_connection())
                && (!is_remote || matches!(error, McpError::Timeout { .. }))
        };
        match listed {
            Err(error) if !is_news(&error) => {
                self.drop_session(&open);
                let open = self.open(place).await?;
                let listed = timeout(patience, self.list_of(place, &open)).await.map_err(late)?;
                Ok((open, listed))
            }
            listed => Ok((open, listed)),
        }
    }

    /// The list of an open session as it is now, as far as its server announces changes. It is read to its end even
    /// where nobody waits for it any more.
    ///
    /// # Errors
    /// When it can't be read.
    async fn list_of(
        &self,
        place: &ServerPlace,
        open: &SessionUse,
    ) -> Result<Arc<ServerList>, McpError> {
        if let Some(list) = self.fresh_list(&open.0) {
            return Ok(list);
        }
        let (pool, place) = (self.clone(), place.clone());
        let open = SessionUse::new(Arc::clone(&open.0));
        let reading = self.0.tasks.spawn(async move {
            let listed = pool.current_list(&open.0).await;
            if let Err(error @ McpError::Timeout { .. }) = &listed {
                pool.note_failure(&place, error.clone());
            }
            listed
        });
        // The task is cut off at the end of the term alone.
        let over = || McpError::Closed { said: String::new() };
        reading.await.ok().flatten().unwrap_or_else(|| Err(over()))
    }

    pub(super) async fn current_list(
        &self,
        open: &Arc<OpenSession>,
    ) -> Result<Arc<ServerList>, McpError> {
        let asked = Instant::now();
        if let Some(list) = self.fresh_list(open) {
            return Ok(list);
        }
        let _turn = open.listing.lock().await;
        if let Some(list) = self.fresh_list(open) {
            return Ok(list);
        }
        // Those that waited for a reading that failed get its failure, and don't begin one each.
        let unread = open.unread.lock().clone();
        if let Some((_, error)) = unread.filter(|(at, _)| *at >= asked) {
            return Err(error);
        }
        // A change that is announced while the list is read makes it stale again.
        open.stale.store(false, Ordering::SeqCst);
        let limit = LISTING.max(open.session.page_limit());
        let reading = read_list(&open.session, &open.key.server, open.secrets());
        let read = match timeout(limit, Box::pin(reading)).await {
            Ok(read) => read,
            Err(_) => Err(McpError::Timeout { method: "tools/list".to_owned(), limit }),
        };
        let list = read.inspect_err(|error| {
            open.stale.store(true, Ordering::SeqCst);
            *open.unread.lock() = Some((Instant::now(), error.clone()));
        })?;
        Ok(self.take_list(open, list))
    }

    /// Keeps the list that a session has read. One that says the same as before stays the same object, and one that
    /// says what another session's did shares what was made of that. Each session has an age of its own: another one
    /// does not speak for it.
    fn take_list(&self, open: &OpenSession, list: ServerList) -> Arc<ServerList> {
        let (all, fingerprint) = (open.key.of_all(), &open.fingerprint);
        let mut state = self.0.state.lock();
        let mut find = |key: &SessionKey| {
            let known = state.lists.get(key).filter(|(of, _)| of == fingerprint);
            known.map(|(_, known)| Arc::clone(known)).filter(|known| known.has_same_words(&list))
        };
        let (own, shared) = (find(&open.key), find(&all));
        if let Some(shared) = &shared {
            // Not waited for: whoever describes it holds this for as long as that takes.
            let described = shared.described.try_lock().and_then(|known| (*known).clone());
            *list.described.lock() = described;
        }
        let list = own.unwrap_or_else(|| Arc::new(list));
        list.renew();
        for key in [open.key.clone(), all] {
            state.lists.insert(key, (fingerprint.clone(), Arc::clone(&list)));
        }
        // What kept it from being read before says nothing of the server any more.
        state.failed.remove(&open.key);
        let version = self.0.stored.next_version();
        drop(state);
        if shared.is_none() {
            self.store_list(&open.key, fingerprint, (version, &list));
        }
        list
    }

    fn fresh_list(&self, open: &OpenSession) -> Option<Arc<ServerList>> {
        if open.stale.load(Ordering::SeqCst) {
            return None;
        }
        let mut state = self.0.state.lock();
        let (of, list) = state.lists.get(&open.key)?;
        let announces = open.session.announces_changes("tools");
        (*of == open.fingerprint && is_fresh(list.age(), announces)).then(|| Arc::clone(list))
    }
}

/// The error of a call that waits no longer for a list. The list is read to its end all the same.
fn unlisted(patience: Duration) -> SharedFailure {
    let waits = format!("its list of tools has not come within {} s", patience.as_secs());
    Arc::new(LinkError::Starting(waits))
}

/// True for a list that is not read again before its server says that it has changed.
fn is_fresh(age: Duration, announces: bool) -> bool {
    age < if announces { ANNOUNCED } else { FRESH }
}

/// A list as the Repo's status shows it.
pub(super) fn describe_list(place: &ServerPlace, list: &ServerList) -> SessionOutcome {
    let (version, tools, remark) = count_tools(place, list);
    SessionOutcome::Answered { version, tools, remark }
}

/// The server's version, the tools of a list that may be used, and a sentence about those that can't.
pub(crate) fn count_tools(place: &ServerPlace, list: &ServerList) -> (String, u32, String) {
    let filter = filter_tools(&place.spec).ok();
    let is_allowed = |name: &str| filter.as_ref().is_none_or(|filter| filter.allows(name));
    let tools = list.tools.iter().filter(|tool| is_allowed(&tool.name)).count();
    let tools = u32::try_from(tools).unwrap_or(u32::MAX);
    (list.version.clone(), tools, describe_left_out(&list.skipped, list.is_cut))
}

/// Reads what a server has. `secrets`: values that it was sent as credentials.
pub(crate) async fn read_list(
    session: &ServerSession,
    server: &str,
    secrets: Vec<String>,
) -> Result<ServerList, McpError> {
    let tools = session.list_tools().await?;
    let facts = session.facts();
    let prompts =
        if facts.has("prompts") { session.list_prompts().await } else { Ok(empty_list()) };
    // A server is of use without its prompts.
    let mut skipped = tools.skipped;
    let named = assign_names(vec![(server.to_owned(), tools.items)], &BTreeSet::new());
    skipped.extend(named.skipped);
    let usable = named.tools.into_values().map(|(_, tool)| tool);
    let prompts = prompts.unwrap_or_else(|error| {
        skipped.push(format!("its prompts can't be listed: {error}"));
        empty_list()
    });
    Ok(ServerList {
        tools: usable.collect(),
        skipped,
        is_cut: tools.is_cut,
        prompts: prompts.items,
        has_resources: facts.has("resources"),
        version: facts.version.clone(),
        about: facts.purpose().to_owned(),
        instructions: facts.instructions.clone().unwrap_or_default(),
        secrets,
        described: Mutex::default(),
        at: Mutex::new(Instant::now()),
    })
}

const fn empty_list() -> codebutler_mcp::session::ListedItems<ListedPrompt> {
    codebutler_mcp::session::ListedItems { items: Vec::new(), skipped: Vec::new(), is_cut: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: a server that takes long to list its tools was asked again by a call of each minute.
    #[test]
    fn a_list_whose_changes_are_announced_is_not_read_again_each_minute() {
        let few = Duration::from_mins(2);
        assert!(is_fresh(few, true) && !is_fresh(few, false));
        assert!(is_fresh(Duration::ZERO, false) && !is_fresh(ANNOUNCED, true));
    }
}
