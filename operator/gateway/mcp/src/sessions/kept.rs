//! Setup of sessions: what servers are told of this client. Also lists that are kept without a session: those that
//! looks in the background have read, so that a role's first turn waits for no server that was ever listed.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use codebutler_crds::names;
use codebutler_mcp::session::{
    DeclaredCapabilities, QuestionAnswer, QuestionHandler, SampledAnswer, SamplingHandler,
    SamplingRefusal, SamplingRequest, ServerQuestion,
};
use codebutler_mcp::{SessionLimits, SessionSetup};
use url::Url;

use super::secrets::add_secrets;
use super::{ServerList, SessionPool};
use crate::questions::sampling::SessionSampling;
use crate::questions::{SessionCallers, SessionQuestions};
use crate::session_key::ServerPlace;

/// Time for a program in a pod to answer, as the SDKs' own clients have it, and where one like `npx` loads it first.
const PROGRAM_START: Duration = Duration::from_mins(1);
const LOADED_START: Duration = Duration::from_mins(2);
/// Commands that load a program from elsewhere before they start it, or take long to start.
const LOADERS: [&str; 19] = [
    "npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uvx", "uv", "pip", "pip3", "pipx", "go",
    "cargo", "dotnet", "dnx", "java", "mvn", "gradle",
];
/// Interval at which it is said that a program is waited for, and the words for that.
const LOOK: Duration = Duration::from_secs(2);
const LOADING: &str = "its program has not answered yet";

impl SessionPool {
    /// Waits for the start of a session. The pod of one is in use meanwhile, however soon an unused one goes, and people
    /// see what is waited for.
    pub(super) async fn keep_starting<T>(
        &self,
        place: &ServerPlace,
        starting: impl Future<Output = T>,
    ) -> T {
        let mut starting = pin!(starting);
        loop {
            tokio::select! {
                started = &mut starting => return started,
                () = tokio::time::sleep(LOOK) => {
                    if place.spec.image.is_some() {
                        self.0.context.mcp.report_start(&place.repo, &place.spec, LOADING);
                        self.0.pods.keep_pod(place).await;
                    }
                }
            }
        }
    }

    /// The setup of a session of roles.
    pub(super) fn setup(&self, place: &ServerPlace, callers: &Arc<SessionCallers>) -> SessionSetup {
        let questions = SessionQuestions {
            server: place.spec.name.clone(),
            callers: Arc::clone(callers),
            people: Arc::clone(&self.0.people),
        };
        let sampling = place.spec.sampling.clone().map(|limits| {
            let sampling = SessionSampling {
                server: place.spec.name.clone(),
                limits,
                callers: Arc::clone(callers),
                asker: Arc::clone(&self.0.asker),
            };
            Arc::new(sampling) as Arc<dyn SamplingHandler>
        });
        setup_session(place, Arc::new(questions), sampling)
    }

    /// Keeps the list that a look has read. A session that is open hears of changes, so its own list stays.
    pub(crate) fn keep_list(&self, place: &ServerPlace, list: ServerList) {
        let fingerprint = place.fingerprint();
        let mut state = self.0.state.lock();
        state.failed.remove(&place.key);
        state.asked.remove(&place.key);
        let is_open = state
            .open
            .get(&place.key)
            .is_some_and(|open| open.fingerprint == fingerprint && !open.session.is_closed());
        let known = state.lists.get(&place.key).filter(|(of, _)| *of == fingerprint);
        let known = known.map(|(_, known)| Arc::clone(known));
        if is_open && known.is_some() {
            return;
        }
        add_secrets(&mut state.secrets, &place.key, &list.secrets);
        if let Some(known) = known.filter(|known| known.has_same_words(&list)) {
            known.renew();
            return;
        }
        let list = Arc::new(list);
        state.lists.insert(place.key.clone(), (fingerprint.clone(), Arc::clone(&list)));
        let version = self.0.stored.next_version();
        drop(state);
        self.store_list(&place.key, &fingerprint, (version, &list));
    }

    /// Reason why the pod of a server is still starting, if it is.
    pub fn start_of(&self, place: &ServerPlace) -> Option<String> {
        self.0.context.mcp.start_of(&(&*place.repo).into(), &place.spec)
    }

    /// The time that somebody may still wait for the first list of a server: it is waited for once, however many ask,
    /// and not at all where its pod has to start first.
    pub(super) fn patience_left(&self, place: &ServerPlace, patience: Duration) -> Duration {
        if place.spec.image.is_some() && !self.0.pods.has_pod(place) {
            return Duration::ZERO;
        }
        let (fingerprint, now) = (place.fingerprint(), Instant::now());
        let mut state = self.0.state.lock();
        let known = state.asked.get(&place.key).filter(|(of, _)| *of == fingerprint);
        let begun = known.map_or(now, |(_, begun)| *begun);
        state.asked.insert(place.key.clone(), (fingerprint, begun));
        patience.saturating_sub(now.duration_since(begun))
    }
}

/// The setup of a session that only looks. It declares what those of roles do, since servers choose their tools by
/// that; nobody is there to be asked.
pub(crate) fn setup_look(place: &ServerPlace) -> SessionSetup {
    let sampling =
        place.spec.sampling.as_ref().map(|_| Arc::new(Nobody) as Arc<dyn SamplingHandler>);
    setup_session(place, Arc::new(Nobody), sampling)
}

struct Nobody;

#[async_trait]
impl QuestionHandler for Nobody {
    async fn ask(&self, _: ServerQuestion) -> QuestionAnswer {
        QuestionAnswer::Declined
    }
}

#[async_trait]
impl SamplingHandler for Nobody {
    async fn sample(&self, _: SamplingRequest) -> Result<SampledAnswer, SamplingRefusal> {
        Err(SamplingRefusal("a model is asked only during a tool call".to_owned()))
    }
}

/// Folder of the worktree in the server's pod: the only root that the program is told of.
fn own_roots(place: &ServerPlace) -> Vec<Url> {
    let mounted = place.spec.worktree.is_some() && place.key.thread.is_some();
    let root = Url::from_file_path(names::pod::SERVER_TREE).ok().filter(|_| mounted);
    root.into_iter().collect()
}

/// Time that the program of a command has to answer. A script of a shell is looked at word by word.
fn start_limit(command: &[String]) -> Duration {
    let mut words = command.iter().flat_map(|part| part.split([' ', '\n', ';', '&', '|', '/']));
    if words.any(|word| LOADERS.contains(&word)) { LOADED_START } else { PROGRAM_START }
}

fn setup_session(
    place: &ServerPlace,
    questions: Arc<dyn QuestionHandler>,
    sampling: Option<Arc<dyn SamplingHandler>>,
) -> SessionSetup {
    let usual = SessionLimits::default();
    SessionSetup {
        questions: Some(questions),
        sampling,
        roots: own_roots(place),
        client_name: "codebutler".to_owned(),
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        declares: DeclaredCapabilities::All,
        is_stateless: false,
        limits: SessionLimits {
            start: if place.spec.image.is_some() {
                start_limit(&place.spec.command)
            } else {
                usual.start
            },
            call_idle: Duration::from_secs(place.spec.call_seconds.into()),
            ..usual
        },
    }
}

#[cfg(test)]
mod tests {
    use codebutler_gateway_core::thread_key::ThreadKey;
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn a_server_hears_of_the_worktree_where_it_has_one() {
        let repo = Arc::new(testing::repo(&json!({})));
        let roots = |fields: serde_json::Value| {
            let mut spec = json!({"name": "files", "image": "acme/files", "command": ["files"]});
            spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let spec = serde_json::from_value(spec).unwrap();
            let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
            own_roots(&ServerPlace::new(&repo, &spec, Some(thread)))
        };
        let mounted = roots(json!({"worktree": "ReadOnly"}));
        assert_eq!(mounted[0].as_str(), "file:///workspace");
        assert!(roots(json!({})).is_empty());
    }

    /// A regression: a program that `npx` loads was ended after thirty seconds, each time anew.
    #[test]
    fn a_program_that_is_loaded_at_its_start_has_time_for_that() {
        let repo = Arc::new(testing::repo(&json!({})));
        let start = |spec: serde_json::Value| {
            let spec = serde_json::from_value(spec).unwrap();
            setup_look(&ServerPlace::new(&repo, &spec, None)).limits.start
        };
        let program = |command: serde_json::Value| {
            start(json!({"name": "files", "image": "node:22", "command": command}))
        };
        assert_eq!(program(json!(["npx", "-y", "files"])), LOADED_START);
        assert_eq!(
            program(json!(["sh", "-c", "cd /srv && exec /usr/bin/uvx files"])),
            LOADED_START
        );
        assert_eq!(program(json!(["/srv/files", "--mode=npx"])), PROGRAM_START);
        let remote = json!({"name": "docs", "url": "https://docs.example/mcp"});
        assert_eq!(start(remote), SessionLimits::default().start);
    }
}
