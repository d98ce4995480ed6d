//! A GitHub of bare repositories: git over `git http-backend`, and the REST calls that a team's
//! tools make, under `/api/v3` as on an Enterprise host.
//!
//! Shapes, status codes and error bodies are those of the real host, so that typed clients work.
//! Pull requests are computed from what is pushed; nothing is cached that Git knows better.

pub mod app;
mod backend;
mod driver;
mod error;
pub mod git;
mod json;
mod lfs;
mod people;
mod permissions;
mod rest;
mod rules;
mod settings;
mod snapshot;
mod state;
mod urls;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use tokio::sync::Mutex;

pub use self::driver::{DrivenRepository, FirstCommit, PullRequest, PullState};
use self::git::GitError;
pub use self::permissions::PersonStanding;
pub use self::settings::RepositoryRules;
pub use self::snapshot::GitHubSnapshot;
use self::state::HostedRepository;
use crate::serving::{HangUp, ListenAddress, RunningServer};

/// An error of the host at a test's request.
#[derive(Debug, thiserror::Error)]
pub enum GitHubError {
    /// The host's folder or port can't be used.
    #[error("the GitHub fake: {0}")]
    Io(#[from] std::io::Error),
    /// A git command of the host failed.
    #[error("the GitHub fake: {0}")]
    Git(#[from] GitError),
    /// A name that does not exist, or already does.
    #[error("the GitHub fake: {0}")]
    Name(String),
}

/// Configuration of a [`GitHubServer`].
#[derive(Clone, Debug)]
pub struct GitHubOptions {
    /// The one token that opens everything.
    pub token: String,
    /// The account that the token belongs to.
    pub login: String,
    /// Address that the host listens at.
    pub at: ListenAddress,
}

impl Default for GitHubOptions {
    fn default() -> Self {
        let token = format!("ghp_{}", uuid::Uuid::new_v4().simple());
        Self { token, login: "codebutler-bot".to_owned(), at: ListenAddress::default() }
    }
}

/// A failure of the host that a test switches on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostFailure {
    /// No failure: the host works.
    #[default]
    No,
    /// Every request is answered with 503.
    Unavailable,
    /// Every connection is closed without an answer.
    HangsUp,
    /// Pushes are taken, but the connection is closed instead of an answer.
    LosesAnswersToPushes,
    /// All tokens of the App end when the next push arrives; then it works.
    RevokesBeforeAPush,
    /// Too much was asked, by a limit that shows in words alone.
    Limits,
}

/// A request that arrived, for assertions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// HTTP method of the request.
    pub method: String,
    /// Path and query of the request.
    pub path: String,
    /// The answer's status; 0 if there was none.
    pub status: u16,
}

/// A running host. Dropping it ends it; its folder stays.
#[derive(Debug)]
pub struct GitHubServer {
    shared: Arc<Shared>,
    serving: RunningServer,
}

/// Id, owner and name that a repository has now.
type RenamedRepository = (u64, String, String);

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    options: GitHubOptions,
    repositories: Mutex<BTreeMap<(String, String), HostedRepository>>,
    next_id: AtomicU64,
    faults: StdMutex<GithubFaults>,
    app: StdMutex<app::GithubApp>,
    /// Repositories by their old owners and names.
    renamed: StdMutex<BTreeMap<(String, String), RenamedRepository>>,
    /// Logins of accounts that are no more.
    gone: StdMutex<BTreeSet<String>>,
    seen: StdMutex<Vec<SeenRequest>>,
    /// Contents of Git LFS: lengths by hash.
    lfs: StdMutex<BTreeMap<String, u64>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GithubFaults {
    away: HostFailure,
    fine_grained: bool,
    latency: Duration,
}

impl Shared {
    fn is_fine_grained(&self) -> bool {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).fine_grained
    }

    /// Looks up the id, owner and name of a repository that was moved.
    fn renamed(&self, owner: &str, name: &str) -> Option<(u64, String, String)> {
        let renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        renamed.get(&(owner.to_owned(), name.to_owned())).cloned()
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl GitHubServer {
    /// Starts a host that keeps its repositories in `dir`.
    ///
    /// # Errors
    /// When the folder or a port can't be had.
    pub async fn start(dir: &Path, options: GitHubOptions) -> Result<Self, GitHubError> {
        tokio::fs::create_dir_all(dir).await?;
        workflows::write_hooks(&dir.canonicalize()?)?;
        let at = options.at;
        let shared = Arc::new(Shared {
            root: dir.canonicalize()?,
            options,
            repositories: Mutex::default(),
            next_id: AtomicU64::new(1),
            faults: StdMutex::default(),
            app: StdMutex::default(),
            renamed: StdMutex::default(),
            gone: StdMutex::default(),
            seen: StdMutex::default(),
            lfs: StdMutex::default(),
        });
        let router = rest::build_router()
            .fallback(git_request)
            .layer(from_fn_with_state(Arc::clone(&shared), rest::answer_first))
            .layer(from_fn_with_state(Arc::clone(&shared), observe_request))
            .with_state(Arc::clone(&shared));
        Ok(Self { shared, serving: RunningServer::start_at(at, router).await? })
    }

    /// `http://<address>:<port>`: repositories are at `<url>/<owner>/<name>.git`.
    #[must_use]
    pub fn url(&self) -> String {
        self.serving.url()
    }

    /// Port that the host listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.serving.port()
    }

    /// The REST API's base, `<url>/api/v3`.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("{}/api/v3", self.url())
    }

    /// The token that opens git and REST.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.shared.options.token
    }

    /// Fails from now on, or works again.
    pub fn set_away(&self, away: HostFailure) {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner).away = away;
    }

    /// The token is a fine-grained one from now on: it can't be let read checks.
    pub fn set_fine_grained(&self) {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner).fine_grained = true;
    }

    /// Delays every answer from now on.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner).latency = latency;
    }

    /// Every request so far, oldest first.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Records a request, and fails it where a test wants that.
async fn observe_request(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().to_string();
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let faults = *shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::time::sleep(faults.latency).await;
    let response = match faults.away {
        HostFailure::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::CONTENT_TYPE, "text/html")],
            "<!DOCTYPE html><title>Unicorn!</title>\n",
        )
            .into_response(),
        HostFailure::HangsUp => HangUp::response(),
        HostFailure::Limits if path.starts_with("/api/") => limited_answer(),
        HostFailure::No | HostFailure::Limits => next.run(request).await,
        HostFailure::LosesAnswersToPushes => {
            let response = next.run(request).await;
            if path.ends_with("git-receive-pack") { lose_answer(response).await } else { response }
        }
        HostFailure::RevokesBeforeAPush => {
            if path.ends_with("git-receive-pack") {
                shared.faults.lock().unwrap_or_else(PoisonError::into_inner).away = HostFailure::No;
                shared.revoke_app_tokens();
            }
            next.run(request).await
        }
    };
    let hung_up = response.extensions().get::<HangUp>().is_some();
    let status = if hung_up { 0 } else { response.status().as_u16() };
    let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.push(SeenRequest { method, path, status });
    drop(seen);
    response
}

/// A secondary limit: neither a time, nor a quota that is used up.
fn limited_answer() -> Response {
    let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try \
                   again.";
    let body = serde_json::json!({
        "message": message, "status": "403",
        "documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
    });
    let left = [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "4800")];
    (StatusCode::FORBIDDEN, left, axum::Json(body)).into_response()
}

/// Waits until all is done, and says nothing of it.
async fn lose_answer(response: Response) -> Response {
    let _ = http_body_util::BodyExt::collect(response.into_body()).await;
    HangUp::response()
}

/// The token that a request carries, whichever way.
fn token_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" | "token" => Some(rest.trim().to_owned()),
        "basic" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            text.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

async fn git_request(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let token = token_of(request.headers()).unwrap_or_default();
    let Ok(login) = shared.who(&token, request.method(), &path) else {
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"GitHub\"")];
        let message = "Invalid username or token.\n";
        return (StatusCode::UNAUTHORIZED, challenge, message).into_response();
    };
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (Some(owner), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return (StatusCode::NOT_FOUND, "Not Found\n").into_response();
    };
    let name = name.strip_suffix(".git").unwrap_or(name);
    if let Some((_, owner, new)) = shared.renamed(owner, name) {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let place = format!("/{owner}/{new}.git/{rest}{query}");
        return (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, place)], "").into_response();
    }
    let key = (owner.to_owned(), name.to_owned());
    let archived = shared.repositories.lock().await.get(&key).map(|found| found.rules.archived);
    let known = archived.is_some();
    let query = request.uri().query().unwrap_or_default();
    if archived == Some(true) && format!("{rest}?{query}").contains("git-receive-pack") {
        let message = "This repository was archived so it is read-only.\n";
        return (StatusCode::FORBIDDEN, message).into_response();
    }
    if known && rest == "info/lfs/objects/batch" {
        return lfs::serve_batch(&shared, request).await;
    }
    // Only the smart protocol: loose files are nobody's business.
    let smart = matches!(rest, "info/refs" | "git-upload-pack" | "git-receive-pack");
    if !known || !smart {
        return (StatusCode::NOT_FOUND, "Repository not found.\n").into_response();
    }
    let inside = format!("/{owner}/{name}.git/{rest}");
    let guarded = !shared.may_change_workflows(&token);
    let hooks = guarded.then(|| workflows::hooks_folder(&shared.root));
    backend::answer_git(&shared.root, (&inside, hooks.as_deref()), &login, request).await
}
