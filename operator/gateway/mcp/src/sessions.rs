//! Sessions with servers: opened on first use, one at a time for each key, closed when nobody has used them for a
//! while, and bounded in number. The latest list of a server's tools outlives its session, so that nothing that only
//! wants to know the tools waits for a start.

mod kept;
mod lists;
mod room;
mod secrets;
mod starts;
mod stored;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use codebutler_gateway_core::asker::ModelAsker;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_facts::SessionOutcome;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_gateway_core::personal::PersonalNotices;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use codebutler_mcp::session::DeclaredCapabilities;
use codebutler_mcp::{EventStream, McpError, ServerSession, SessionEvent, SessionSetup};
use codebutler_runtime::recent::RecentMap;
use codebutler_runtime::tasks::TaskGroup;
use parking_lot::Mutex;

pub(crate) use self::kept::setup_look;
use self::lists::describe_list;
pub use self::lists::{DescribedList, ListWords, ServerList, ToolsOutlook};
pub(crate) use self::lists::{count_tools, read_list};
use super::bridges::ServerSecrets;
use super::link::{LinkError, PodLinks};
use super::list_store::ListStore;
use super::masking::WordGuard;
use super::problem_notices::ProblemNotices;
use super::questions::{CallerMark, SessionCallers};
use super::session_key::{ServerPlace, SessionKey};
use super::sign_in::ServerGrant;

/// Sessions that are open at once.
const MOST: usize = 512;
/// Failures and lists that are remembered.
const REMEMBERED: usize = 1024;
/// Characters of an entry of a server's log that people see.
const LOG: usize = 120;
/// A failure holds for those that waited for the same start.
const RECENT: Duration = Duration::from_secs(3);
/// A list that was asked for in the background is not asked for again so soon after a failure.
const AGAIN: Duration = Duration::from_secs(30);
/// Shortest time between two readings of a list that its server says has changed.
const REFRESH: Duration = Duration::from_secs(1);
/// Longest time between two looks at whether a session is still used.
const TICK: Duration = Duration::from_secs(15);

/// An open session with a server, and its state in the pool.
pub struct OpenSession {
    key: SessionKey,
    session: ServerSession,
    fingerprint: String,
    sent: Mutex<ServerSecrets>,
    grant: Option<ServerGrant>,
    callers: Arc<SessionCallers>,
    /// Place of the server, if it runs in a pod.
    pod: Option<ServerPlace>,
    running: AtomicUsize,
    used: Mutex<Instant>,
    /// Time at which it has last answered a ping, or its greeting.
    proven: Mutex<Instant>,
    /// True until somebody has learned that the server has lost what it remembered.
    renewed: AtomicBool,
    /// True if the server has announced a change of its list since it was read.
    stale: AtomicBool,
    listing: tokio::sync::Mutex<()>,
    /// The latest failure to read its list.
    unread: Mutex<Option<(Instant, McpError)>>,
}

/// A session in use: it is not closed as idle before this is dropped.
pub struct SessionUse(Arc<OpenSession>);

impl SessionUse {
    fn new(open: Arc<OpenSession>) -> Self {
        open.running.fetch_add(1, Ordering::SeqCst);
        *open.used.lock() = Instant::now();
        Self(open)
    }

    pub fn session(&self) -> &ServerSession {
        &self.0.session
    }

    /// Tells the session whose call it works on, until the mark is dropped.
    pub fn begin_call(&self, caller: &ProvenCaller, guard: &WordGuard) -> CallerMark {
        self.0.callers.begin(caller, guard)
    }

    /// Values that the server was sent as credentials.
    pub fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }

    /// True once after the server has lost what it remembered of earlier calls.
    pub fn take_renewal(&self) -> bool {
        self.0.renewed.swap(false, Ordering::SeqCst)
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl OpenSession {
    fn secrets(&self) -> Vec<String> {
        let mut secrets = self.sent.lock().all();
        secrets.extend(self.grant.iter().flat_map(ServerGrant::secrets));
        secrets
    }

    fn is_idle(&self, patience: Duration) -> bool {
        self.running.load(Ordering::SeqCst) == 0 && self.used.lock().elapsed() >= patience
    }
}

/// A failure that several wait for.
type SharedFailure = Arc<LinkError>;

struct PoolState {
    open: HashMap<SessionKey, Arc<OpenSession>>,
    /// Sessions whose pods have old Secrets, and since when: their calls end before those are replaced.
    retiring: Vec<(Arc<OpenSession>, Instant)>,
    /// Sessions whose programs have ended, or were ended, while they were in use.
    lost: RecentMap<SessionKey, ()>,
    failed: RecentMap<SessionKey, (Instant, String, SharedFailure)>,
    lists: RecentMap<SessionKey, (String, Arc<ServerList>)>,
    /// Entries of servers whose lists were looked for on disk.
    recalled: RecentMap<SessionKey, String>,
    /// Time at which servers were first asked for a list, until one of them has given it.
    asked: RecentMap<SessionKey, (String, Instant)>,
    /// Values that servers were sent as credentials, now and lately: their last words can have them.
    secrets: RecentMap<SessionKey, Vec<String>>,
}

/// Ways to servers, and to the people who wait for them.
pub struct SessionWays {
    /// Caches and the gateway's own Kubernetes identity.
    pub context: GatewayContext,
    /// Opens links to servers in pods.
    pub pods: Arc<dyn PodLinks>,
    /// Posts in threads what is wrong with servers.
    pub trouble: ProblemNotices,
    /// Takes questions of servers to people.
    pub people: Arc<dyn PersonalNotices>,
    /// Takes requests of servers to models.
    pub asker: ModelAsker,
    /// Keeps lists of tools for the next process.
    pub stored: ListStore,
}

struct PoolParts {
    context: GatewayContext,
    pods: Arc<dyn PodLinks>,
    trouble: ProblemNotices,
    people: Arc<dyn PersonalNotices>,
    asker: ModelAsker,
    stored: ListStore,
    /// Lock for one reading of the disk at a time.
    recalling: tokio::sync::Mutex<()>,
    metrics: GatewayMetrics,
    tasks: TaskGroup,
    opening: KeyedLocks<SessionKey>,
    state: Mutex<PoolState>,
}

/// Pool of all sessions of one term. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct SessionPool(Arc<PoolParts>);

impl SessionPool {
    /// Creates a pool without open sessions.
    pub fn new(ways: SessionWays, metrics: GatewayMetrics, tasks: TaskGroup) -> Self {
        let SessionWays { context, pods, trouble, people, asker, stored } = ways;
        let state = PoolState {
            open: HashMap::new(),
            retiring: Vec::new(),
            lost: RecentMap::new(REMEMBERED),
            failed: RecentMap::new(REMEMBERED),
            lists: RecentMap::new(REMEMBERED),
            recalled: RecentMap::new(REMEMBERED),
            asked: RecentMap::new(REMEMBERED),
            secrets: RecentMap::new(REMEMBERED),
        };
        let (opening, state) = (KeyedLocks::default(), Mutex::new(state));
        Self(Arc::new(PoolParts {
            context,
            pods,
            trouble,
            people,
            asker,
            stored,
            recalling: tokio::sync::Mutex::default(),
            metrics,
            tasks,
            opening,
            state,
        }))
    }

    /// The session of a server, opened if it is not. A start goes on where nobody waits for it any more.
    ///
    /// # Errors
    /// A sentence that can have words of the server in it.
    pub async fn open(&self, place: &ServerPlace) -> Result<SessionUse, SharedFailure> {
        if let Some(open) = self.find(place) {
            if self.is_answering(&open).await {
                if place.spec.image.is_some() {
                    self.0.pods.keep_pod(place).await;
                    self.report_list(place);
                }
                return Ok(open);
            }
            // Its program is ended, and begins anew.
            tracing::warn!(server = place.spec.name, "server_ping_unanswered");
            self.drop_session(&open);
            // At once: a call that came after the ping would keep the program for all of its time limit.
            Box::pin(open.session().close()).await;
        }
        let (pool, place) = (self.clone(), place.clone());
        let starting = self.0.tasks.spawn(async move { Box::pin(pool.start(&place)).await });
        let over = || LinkError::Passing("another gateway takes over: try again".to_owned());
        starting.await.ok().flatten().unwrap_or_else(|| Err(Arc::new(over())))
    }

    async fn start(&self, place: &ServerPlace) -> Result<SessionUse, SharedFailure> {
        let begun = Instant::now();
        let _turn = self.0.opening.lock(&place.key).await;
        if let Some(open) = self.find(place) {
            return Ok(open);
        }
        // Callers that waited for a start that failed get its failure, and don't begin one each.
        let waited = begun.elapsed().min(RECENT);
        if let Some(failure) = self.failure(place, waited) {
            return Err(failure);
        }
        match self.connect_surely(place).await {
            Ok(open) => {
                self.0.state.lock().failed.remove(&place.key);
                self.report_list(place);
                Ok(open)
            }
            Err(error) => {
                // A passing failure is no fault of the server, and not reported.
                if !error.is_passing() {
                    self.report(place, SessionOutcome::Failed(error.to_string()));
                }
                self.post_trouble(place, &error);
                let error = Arc::new(error);
                let failed = (Instant::now(), place.fingerprint(), Arc::clone(&error));
                self.0.state.lock().failed.insert(place.key.clone(), failed);
                Err(error)
            }
        }
    }

    /// Posts in the place's thread why its server can't be used, once for each reason.
    pub fn post_trouble(&self, place: &ServerPlace, error: &LinkError) {
        let redactor = self.0.context.redactors.of(&place.repo);
        let guard = WordGuard::new(redactor, &self.known_secrets(place));
        self.0.trouble.post(place, error, &guard);
    }

    fn report_list(&self, place: &ServerPlace) {
        if let Some(list) = self.known_list(place) {
            self.report(place, describe_list(place, &list));
        }
    }

    /// Reports the outcome of a role's session, for the Repo's status.
    fn report(&self, place: &ServerPlace, outcome: SessionOutcome) {
        let outcome = self.mask_outcome(place, outcome);
        self.0.context.mcp.report_session(&place.repo, &place.spec, outcome);
    }

    /// The latest failure to open it, if it is not older than `age`.
    pub fn failure(&self, place: &ServerPlace, age: Duration) -> Option<SharedFailure> {
        let mut state = self.0.state.lock();
        let (at, fingerprint, error) = state.failed.get(&place.key)?;
        let holds = at.elapsed() <= age && *fingerprint == place.fingerprint();
        holds.then(|| Arc::clone(error))
    }

    /// Ends a session that is of no use any more; the next use opens another one.
    pub fn drop_session(&self, open: &SessionUse) {
        self.remove(&open.0, true);
    }

    /// Forgets all sessions at the end of the term, without a word to their servers.
    pub fn forget_all(&self) {
        let mut state = self.0.state.lock();
        (state.open, state.retiring) = (HashMap::new(), Vec::new());
        self.0.metrics.mcp_sessions(0);
    }

    fn find(&self, place: &ServerPlace) -> Option<SessionUse> {
        let mut state = self.0.state.lock();
        let open = state.open.get(&place.key)?;
        if !open.session.is_closed() && open.fingerprint == place.fingerprint() {
            return Some(SessionUse::new(Arc::clone(open)));
        }
        let is_lost = open.session.is_closed() && open.pod.is_some();
        // The session's own task closes it once it sees that it is not in the list any more.
        state.open.remove(&place.key);
        if is_lost {
            state.lost.insert(place.key.clone(), ());
        }
        self.0.metrics.mcp_sessions(state.open.len());
        None
    }

    fn remove(&self, open: &Arc<OpenSession>, is_lost: bool) {
        let mut state = self.0.state.lock();
        if state.open.get(&open.key).is_some_and(|known| Arc::ptr_eq(known, open)) {
            state.open.remove(&open.key);
            if is_lost && open.pod.is_some() {
                state.lost.insert(open.key.clone(), ());
            }
            self.0.metrics.mcp_sessions(state.open.len());
        }
    }

    fn holds(&self, open: &Arc<OpenSession>) -> bool {
        let state = self.0.state.lock();
        state.open.get(&open.key).is_some_and(|known| Arc::ptr_eq(known, open))
    }

    async fn connect_once(
        &self,
        place: &ServerPlace,
        declares: DeclaredCapabilities,
        is_stateless: bool,
    ) -> Result<SessionUse, LinkError> {
        self.make_room(place)?;
        let parts = &self.0;
        self.await_retired(&place.key).await?;
        let opened = self.open_way(place).await?;
        let callers = Arc::<SessionCallers>::default();
        let setup = SessionSetup { declares, is_stateless, ..self.setup(place, &callers) };
        self.remember_secrets(&place.key, &opened.secrets.all());
        let starting = Box::pin(ServerSession::open(opened.link, setup));
        let session = Box::pin(self.keep_starting(place, starting)).await;
        let (session, events) =
            session.map_err(|error| LinkError::of_session(error, &place.spec))?;
        let open = Arc::new(OpenSession {
            key: place.key.clone(),
            session,
            fingerprint: place.fingerprint(),
            sent: Mutex::new(opened.secrets),
            grant: opened.grant,
            callers,
            pod: place.spec.image.is_some().then(|| place.clone()),
            running: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            proven: Mutex::new(Instant::now()),
            renewed: AtomicBool::new(false),
            stale: AtomicBool::new(true),
            listing: tokio::sync::Mutex::default(),
            unread: Mutex::default(),
        });
        let used = SessionUse::new(Arc::clone(&open));
        {
            let mut state = parts.state.lock();
            open.renewed.store(state.lost.remove(&place.key).is_some(), Ordering::SeqCst);
            state.open.insert(place.key.clone(), Arc::clone(&open));
            parts.metrics.mcp_sessions(state.open.len());
        }
        let idle = Duration::from_secs(place.spec.idle_seconds.into());
        drop(parts.tasks.spawn(self.clone().tend(open, events, idle)));
        Ok(used)
    }

    /// Closes the session that was used longest ago where there are too many. Who has many in use gets no further one
    /// before others have room for theirs.
    fn make_room(&self, place: &ServerPlace) -> Result<(), LinkError> {
        let mut state = self.0.state.lock();
        let in_use = state.open.values().filter(|open| !open.is_idle(Duration::ZERO));
        let (mut all, mut own) = (0, 0);
        for open in in_use {
            all += 1;
            own += usize::from(open.key.namespace == place.key.namespace);
        }
        if !has_room(own, all) {
            return Err(LinkError::Full(own));
        }
        if state.open.len() < MOST {
            return Ok(());
        }
        let unused = state.open.values().filter(|open| open.is_idle(Duration::ZERO));
        let oldest = unused.min_by_key(|open| *open.used.lock()).map(|open| open.key.clone());
        let Some(oldest) = oldest else { return Err(LinkError::Full(own)) };
        state.open.remove(&oldest);
        Ok(())
    }

    /// Shows an entry of a server's log to the caller, if the session works on a single call.
    fn show_log(&self, open: &OpenSession, level: &str, text: &str) {
        tracing::debug!(server = open.key.server, severity = level, "server_log_received");
        if let Some((caller, guard)) = open.callers.only_one().filter(|_| level != "debug") {
            self.0.people.show_progress(&caller, &guard.line(text, LOG));
        }
    }

    /// A call, or a question to a person, can take longer than an unused pod stays.
    async fn keep_pod_in_use(&self, open: &OpenSession) {
        if let Some(place) = open.pod.as_ref().filter(|_| !open.is_idle(Duration::ZERO)) {
            self.0.pods.keep_pod(place).await;
        }
    }

    /// Reads what a server does by itself, until its session is over.
    async fn tend(self, open: Arc<OpenSession>, mut events: EventStream, idle: Duration) {
        let tick = (idle / 4).clamp(Duration::from_millis(500), TICK);
        let mut refreshed = Instant::now();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    None => break,
                    Some(
                        SessionEvent::ToolsChanged
                        | SessionEvent::PromptsChanged
                        | SessionEvent::ResourcesChanged,
                    ) => {
                        open.stale.store(true, Ordering::SeqCst);
                        // A server that announces without an end is asked in its own time.
                        tokio::time::sleep(REFRESH.saturating_sub(refreshed.elapsed())).await;
                        refreshed = Instant::now();
                        let listed = self.current_list(&open).await;
                        if let Err(error) = listed {
                            tracing::debug!(%error, "server_list_refresh_failed");
                        }
                    }
                    Some(SessionEvent::Restarted) => open.renewed.store(true, Ordering::SeqCst),
                    Some(SessionEvent::Log { level, text, .. }) => self.show_log(&open, &level, &text),
                    Some(event) => tracing::debug!(server = open.key.server, ?event, "server_event_received"),
                },
                () = tokio::time::sleep(tick) => {}
            }
            if open.session.is_closed() || open.is_idle(idle) || !self.holds(&open) {
                break;
            }
            if self.has_old_secrets(&open).await {
                tracing::info!(server = open.key.server, "server_secrets_changed");
                self.retire(&open);
                break;
            }
            self.keep_pod_in_use(&open).await;
        }
        self.remove(&open, open.session.is_closed());
        // Calls under way end before it does.
        while open.running.load(Ordering::SeqCst) > 0 && !open.session.is_closed() {
            tokio::time::sleep(tick).await;
            self.keep_pod_in_use(&open).await;
        }
        open.session.close().await;
        self.forget_retired(&open);
    }
}

/// True where a namespace with so many sessions in use, of all that are, may open another one: as long as what is
/// free is more than what it has, so that there is always room for one that has fewer.
const fn has_room(own: usize, all: usize) -> bool {
    own < MOST.saturating_sub(all)
}

/// True for an answer that tells that the credentials of the session are not accepted any more.
pub const fn is_sign_in(error: &McpError) -> bool {
    matches!(error, McpError::SignIn { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_uses_all_it_can_leaves_room_for_the_next_one() {
        let (mut used, mut shares) = (0, Vec::new());
        for _ in 0..4 {
            let mut own = 0;
            while has_room(own, used) {
                (own, used) = (own + 1, used + 1);
            }
            shares.push(own);
        }
        assert_eq!(shares, [256, 128, 64, 32]);
    }
}
