//! The one person who is asked to sign in: the one who asked the role last. They get a link that only they see, once
//! for each of their messages, and the model a sentence about it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{RoleState, ThreadState};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::McpServers;
use super::link::LinkError;
use super::masking::WordGuard;
use super::session_key::ServerPlace;
use super::sign_in::{
    PersonalLink, ServerGrant, SignInAsker, SignInError, begin_sign_in, has_right,
};

/// Questions that are remembered.
const REMEMBERED: usize = 1024;
/// The wait for a link before the model is answered.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of a right's name.
const SCOPE: usize = 200;
/// Roles of a Thread that are woken by one sign-in at most.
const ROLES: usize = 16;
/// Time before a sign-in that could not begin is tried again.
const AGAIN: Duration = Duration::from_mins(1);

/// Identity of a question: a new message to the role makes a new one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AskKey {
    thread: ThreadKey,
    uid: String,
    role: String,
    server: String,
    mail: Option<SlackTs>,
    /// The right that a sign-in lacks.
    scope: Option<String>,
}

#[derive(Clone, Debug)]
enum AskState {
    Running,
    Sent(String),
    Alone,
    Failed(Instant, String),
}

impl fmt::Display for AskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a person has to sign in to it")?;
        match self {
            Self::Running => f.write_str(", and gets a link for that in the thread"),
            Self::Sent(user) => write!(
                f,
                ": <@{user}> was sent a link in this thread that nobody else sees. Their sign-in wakes you; another \
                 message of theirs brings another link"
            ),
            Self::Alone => f.write_str(
                ", and no person who may decide in this Repo has written in this thread: one of them has to write here",
            ),
            Self::Failed(_, why) => write!(f, ", which can't begin: {why}"),
        }
    }
}

/// A person got no link to sign in.
#[derive(Debug, thiserror::Error)]
enum SendLinkError {
    /// The sign-in can't begin.
    #[error(transparent)]
    Begin(#[from] SignInError),
    /// Slack did not take the link.
    #[error(transparent)]
    Post(#[from] ApiError),
}

/// Sign-ins that people were asked for in this leader's term.
pub struct SignInAsks(Mutex<RecentMap<AskKey, AskState>>);

impl Default for SignInAsks {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl SignInAsks {
    /// True for the one that has to ask.
    fn begin(&self, key: &AskKey) -> bool {
        let mut states = self.0.lock();
        match states.get(key) {
            Some(AskState::Failed(at, _)) if at.elapsed() >= AGAIN => {}
            Some(_) => return false,
            None => {}
        }
        states.insert(key.clone(), AskState::Running);
        true
    }

    fn keep(&self, key: AskKey, state: AskState) {
        self.0.lock().insert(key, state);
    }

    fn state(&self, key: &AskKey) -> AskState {
        self.0.lock().get(key).cloned().unwrap_or(AskState::Running)
    }
}

/// The reason why a server can't be used, for the model, masked. If a sign-in is missing, a person is asked for it.
pub async fn explain_failure(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    place: &ServerPlace,
    error: &LinkError,
    guard: &WordGuard,
) -> String {
    let (challenge, scope) = match error {
        LinkError::SignIn { challenge, .. } => (challenge, None),
        LinkError::Scope { challenge, scope, has_sign_in: true, .. } => (challenge, Some(scope)),
        error => return guard.error(error),
    };
    if let Some(scope) = scope
        && has_right(&servers.context, place, scope).await
    {
        let refused = format!(
            "{error} by what the server says, though it was granted: the account that has signed in may not do this"
        );
        return guard.error(&refused);
    }
    let status = caller.thread.status.as_ref();
    let role = status.and_then(|status| status.roles.get(caller.role_name()));
    let key = AskKey {
        thread: caller.key(),
        uid: caller.thread.uid().unwrap_or_default(),
        role: caller.role_name().to_owned(),
        server: place.spec.name.clone(),
        mail: role.and_then(|role| role.inbox.clone()),
        scope: scope.cloned(),
    };
    if servers.asks.begin(&key) {
        let asking = ask_person(Arc::clone(servers), place.clone(), challenge.clone(), key.clone());
        let task = servers.tasks.spawn(asking);
        let _ = timeout(PATIENCE, task).await;
    }
    let state = servers.asks.state(&key);
    match scope {
        None => guard.error(&state),
        Some(scope) => {
            let short: String = scope.chars().take(SCOPE).collect();
            guard.error(&format!("the sign-in lacks the right `{short}`: {state}"))
        }
    }
}

async fn ask_person(servers: Arc<McpServers>, place: ServerPlace, challenge: String, key: AskKey) {
    let secrets = ServerGrant::new(&servers.context, &place).secrets();
    let guard = WordGuard::new(servers.context.redactors.of(&place.repo), &secrets);
    let state = match servers.people.find_decider(&key.thread).await {
        None => AskState::Alone,
        Some(user) => match send_link(&servers, &place, &guard, &challenge, &key, &user).await {
            Ok(()) => AskState::Sent(user),
            Err(error) => {
                let why = guard.error(&error);
                tracing::warn!(server = key.server, why, "server_sign_in_start_failed");
                AskState::Failed(Instant::now(), why)
            }
        },
    };
    servers.asks.keep(key, state);
}

async fn send_link(
    servers: &McpServers,
    place: &ServerPlace,
    guard: &WordGuard,
    challenge: &str,
    key: &AskKey,
    user: &str,
) -> Result<(), SendLinkError> {
    let (context, thread) = (&servers.context, &key.thread);
    let asker = SignInAsker { user, thread: &thread.name, role: &key.role };
    let link = begin_sign_in(context, place, challenge, &asker).await?;
    let server = &key.server;
    let missing = key.scope.as_deref().map(|scope| guard.line(scope, SCOPE));
    let text = write_link(server, &link, missing.as_deref());
    servers.people.whisper(thread, user, &text).await?;
    let note = |status: &mut ThreadStatus| {
        let known = status.mcp.get_or_insert_default().servers.entry(server.clone()).or_default();
        known.sign_in = Some(user.to_owned());
        if !known.sign_in_roles.contains(&key.role) && known.sign_in_roles.len() < ROLES {
            known.sign_in_roles.push(key.role.clone());
        }
    };
    // The note only says for whom the thread waits, so a failed write does no harm.
    servers.threads.update(thread, note).await.ok();
    if link.was_lost && missing.is_none() {
        report_loss(servers, place, key, user).await;
    }
    Ok(())
}

/// Roles of a Thread that wait for a sign-in to this server; None without a question who signs in.
pub fn find_waiting(thread: &Thread, place: &ServerPlace) -> Option<Vec<String>> {
    let is_own = thread.spec.repo == place.repo.name_any()
        && thread.namespace() == place.repo.namespace()
        && thread.spec.state == ThreadState::Active;
    let status = thread.status.as_ref().filter(|_| is_own)?;
    let known = status.mcp.as_ref()?.servers.get(&place.spec.name)?;
    known.sign_in.as_ref()?;
    // An earlier version has not said which roles need it: each of them may.
    let needs =
        |name: &String| known.sign_in_roles.is_empty() || known.sign_in_roles.contains(name);
    let roles = status.roles.iter();
    let waiting =
        roles.filter(|(name, role)| role.state == Some(RoleState::Waiting) && needs(name));
    Some(waiting.map(|(name, _)| name.clone()).collect())
}

/// Ends the question who signs in to a server.
pub fn end_question(status: &mut ThreadStatus, server: &str) {
    let known = status.mcp.as_mut().and_then(|mcp| mcp.servers.get_mut(server));
    if let Some(known) = known {
        known.sign_in = None;
        known.sign_in_roles.clear();
    }
}

fn write_link(server: &str, link: &PersonalLink, missing: Option<&str>) -> String {
    let PersonalLink { address, host, .. } = link;
    let wish = match missing {
        None => format!("The server `{server}` wants a person to sign in at `{host}`"),
        Some(scope) => format!(
            "The server `{server}` wants the right `{}` for what a role was asked to do, and the sign-in does not give it. \
             To add it, sign in at `{host}` once more",
            scope.replace('`', "'")
        ),
    };
    format!(
        ":key: {wish}: <{address}|Sign in to {server}>. Only you see this link, and it works for 15 minutes. What you allow \
         there is used by this Repo's roles, for all who talk to them."
    )
}

/// Posts one sentence in the thread for each loss.
async fn report_loss(servers: &McpServers, place: &ServerPlace, key: &AskKey, user: &str) {
    let server = &key.server;
    let text = format!(
        "The sign-in to the server `{server}` is no longer valid: <@{user}> has been sent a link to sign in again."
    );
    let mail = key.mail.as_ref().map(ToString::to_string).unwrap_or_default();
    let line = format!("mcp-lost-{server}-{mail}");
    if let Err(error) = servers.people.post_to(&key.thread, &line, &text, &[user.to_owned()]).await
    {
        tracing::warn!(server = place.spec.name, %error, thread = key.thread.name, notice = "sign_in_lost", "notice_post_failed");
    }
}

/// The sentence of the Repo's condition for a server that wants another right for whatever it is asked.
pub fn describe_missing(scope: &str) -> String {
    format!(
        "the sign-in lacks the right `{scope}`: a person who writes in a thread whose role uses it gets a link there"
    )
}

/// The sentence of the Repo's condition for a server that wants a sign-in.
pub fn describe_need(checked: Result<Option<String>, SignInError>) -> String {
    match checked {
        Ok(None) => "a person has to sign in: one who writes in a thread whose role uses it gets a link there".to_owned(),
        Ok(Some(words)) => {
            let words = if words.is_empty() { words } else { format!(" ({words})") };
            format!(
                "the sign-in is no longer valid{words}: a person who writes in a thread whose role uses it gets a link \
                 there"
            )
        }
        Err(error) => format!("a person has to sign in, which can't begin: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    fn key(mail: &str) -> AskKey {
        AskKey {
            thread: ThreadKey { namespace: "team".into(), name: "shop-1".into() },
            uid: "u".into(),
            role: "coder".into(),
            server: "linear".into(),
            mail: mail.parse().ok(),
            scope: None,
        }
    }

    #[test]
    fn a_person_is_asked_once_for_each_message_and_again_after_a_failure() {
        let asks = SignInAsks::default();
        assert!(asks.begin(&key("1.000001")) && !asks.begin(&key("1.000001")));
        asks.keep(key("1.000001"), AskState::Sent("U1".into()));
        assert!(!asks.begin(&key("1.000001")) && asks.begin(&key("2.000001")));
        let wider = AskKey { scope: Some("files:write".into()), ..key("1.000001") };
        assert!(
            asks.begin(&wider) && !asks.begin(&wider),
            "a missing right is a question of its own"
        );
        let failed = |at| AskState::Failed(at, "no address".into());
        asks.keep(key("2.000001"), failed(Instant::now()));
        assert!(!asks.begin(&key("2.000001")));
        let long_ago = Instant::now().checked_sub(AGAIN).unwrap();
        asks.keep(key("2.000001"), failed(long_ago));
        assert!(asks.begin(&key("2.000001")));
    }

    #[test]
    fn a_sign_in_ends_the_question_in_all_threads_of_the_repo() {
        let servers = json!([{"name": "docs", "url": "https://docs.example/mcp"}]);
        let repo = Arc::new(testing::repo(&json!({"mcpServers": servers})));
        let place = ServerPlace::new(&repo, &repo.spec.mcp_servers[0], None);
        let thread = |repo: &str, server: &str| -> Thread {
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
                "metadata": {"name": "shop-1-000000", "namespace": "team"}, "spec": {"repo": repo},
                "status": {
                    // The reviewer waits for something else.
                    "roles": {"pm": {"state": "Idle"}, "coder": {"state": "Waiting"},
                        "reviewer": {"state": "Waiting"}},
                    "mcp": {"servers": {
                        server: {"calls": 1, "signIn": "U1", "signInRoles": ["coder", "pm"]},
                    }},
                },
            }))
            .unwrap()
        };
        let asked = thread("shop", "docs");
        assert_eq!(find_waiting(&asked, &place), Some(vec!["coder".to_owned()]));
        assert_eq!(find_waiting(&thread("shop", "other"), &place), None);
        assert_eq!(find_waiting(&thread("till", "docs"), &place), None);
        let mut older = asked.clone();
        let servers = &mut older.status.as_mut().unwrap().mcp.as_mut().unwrap().servers;
        servers.get_mut("docs").unwrap().sign_in_roles.clear();
        let both = ["coder", "reviewer"].map(str::to_owned);
        assert_eq!(find_waiting(&older, &place), Some(both.to_vec()), "asked before an upgrade");
        let mut ended = asked;
        let status = ended.status.as_mut().unwrap();
        end_question(status, "unknown");
        end_question(status, "docs");
        assert_eq!(status.mcp.as_ref().unwrap().servers["docs"].calls, 1);
        assert_eq!(find_waiting(&ended, &place), None);
    }

    #[test]
    fn the_link_names_the_host_and_says_for_whom_it_holds() {
        let link = PersonalLink {
            address: "https://butler.example/sign-in/server/team/shop/linear/t".into(),
            host: "auth.linear.app".into(),
            was_lost: false,
        };
        let wider = write_link("linear", &link, Some("issues:`write"));
        assert!(
            wider.contains("wants the right `issues:'write`") && wider.contains("Only you see")
        );
        let text = write_link("linear", &link, None);
        assert!(text.contains("`auth.linear.app`") && text.contains("Only you see"), "{text}");
        assert!(text.contains("linear/t|Sign in to linear>"), "{text}");
    }
}
