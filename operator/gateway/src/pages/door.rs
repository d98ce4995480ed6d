//! Authentication and authorization of pages: viewers see there what they may see in Slack, and nothing more.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::FromRequestParts;
use codebutler_crds::Repo;
use codebutler_crds::names::secret_key;
use codebutler_crds::repo::SecretRef;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use codebutler_gateway_core::secrets::SecretError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_history::ThreadPlace;
use codebutler_pages::{ListedThread, PageVisitor, ThreadSummary, UserNames};
use codebutler_slack::{ProvenPerson, SlackGateway};
use futures::future::join_all;
use http::Method;
use http::header::COOKIE;
use http::request::Parts;
use kube::ResourceExt as _;
use tokio::sync::Mutex;

use super::flows::SignInFlows;
use super::issuer::{ClientRegistration, IssuerIdentity, OpenIdIssuer};
use super::options::SignInPlan;
use super::seal::CookieSeal;
use super::{PageProblem, PageServices};

/// Time for which a Secret that was read is cached.
const FRESH: Duration = Duration::from_mins(1);
/// Name of the session cookie.
pub(super) const SESSION: &str = "session";

/// Path to which the issuer redirects the browser after sign-in.
pub(super) const DONE: &str = "/sign-in/done";
/// Message that reveals nothing of the Secret.
pub(super) const NO_SECRET: &str = "The Secret of `pages.secret` can't be used.";

/// Access to pages: open, or only after a sign-in.
#[derive(Clone)]
pub(super) enum PageDoor {
    /// Access without a sign-in: everybody who reaches the address sees everything.
    Open,
    Signed(Arc<SignIn>),
}

impl PageDoor {
    /// # Errors
    /// When somebody has signed out meanwhile.
    pub(super) fn require_session(&self, viewer: &PageViewer) -> Result<(), PageProblem> {
        match (self, viewer) {
            (Self::Signed(sign_in), PageViewer::Person(person))
                if sign_in.flows.has_ended(&person.session) =>
            {
                Err(PageProblem::SignIn { to: "/".to_owned(), unsent: false })
            }
            _ => Ok(()),
        }
    }
}

/// State and configuration of sign-ins.
pub(super) struct SignIn {
    pub plan: SignInPlan,
    pub issuer: OpenIdIssuer,
    pub flows: SignInFlows,
    context: GatewayContext,
    keys: Mutex<Option<(Instant, Arc<DoorKeys>)>>,
}

/// Keys from the Secret. No Debug.
pub(super) struct DoorKeys {
    pub registration: ClientRegistration,
    pub seal: CookieSeal,
}

impl SignIn {
    pub(super) fn new(plan: SignInPlan, context: GatewayContext) -> Self {
        let issuer = OpenIdIssuer::new(plan.kind, &plan.issuer, context.dialer.clone());
        Self { plan, issuer, flows: SignInFlows::default(), context, keys: Mutex::default() }
    }

    /// Returns the client registration and the signing key from the Secret, cached for [`FRESH`].
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) async fn keys(&self) -> Result<Arc<DoorKeys>, SecretError> {
        let mut known = self.keys.lock().await;
        if let Some((at, keys)) = &*known
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(keys));
        }
        let reference = SecretRef { name: self.plan.secret.clone() };
        let to = (&self.plan.issuer, DialReach::Anywhere);
        let opened = self.context.open_secret(&self.context.namespace, &reference, to).await?;
        let secret = opened.value(secret_key::CLIENT_SECRET)?;
        let seal = CookieSeal::of(&secret);
        let mut redirect = self.plan.own.clone();
        redirect.set_path(DONE);
        let id = opened.value(secret_key::CLIENT_ID)?;
        let keys =
            Arc::new(DoorKeys { registration: ClientRegistration { id, secret, redirect }, seal });
        *known = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }

    /// Full name of a cookie. Over TLS it begins with `__Host-`, so that no other host can have set it.
    pub(super) fn cookie(&self, name: &str) -> String {
        let prefix = if self.is_secure() { "__Host-" } else { "" };
        format!("{prefix}codebutler-{name}")
    }

    pub(super) fn is_secure(&self) -> bool {
        self.plan.own.scheme() == "https"
    }
}

/// The requester of a page.
#[derive(Clone)]
pub(super) enum PageViewer {
    /// An anonymous viewer of an open address.
    Anyone,
    Person(Box<SignedInPerson>),
}

/// Somebody who has signed in.
#[derive(Clone)]
pub(super) struct SignedInPerson {
    pub identity: IssuerIdentity,
    /// The cookie's value, which their changes are bound to.
    session: String,
    seal: CookieSeal,
}

impl SignedInPerson {
    /// Value of the session cookie.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// True if a change carries this session's CSRF token, so that it comes from a page that this person was shown.
    pub(super) fn sent(&self, token: &str) -> bool {
        self.seal.takes(&self.session, token)
    }
}

impl PageViewer {
    /// Identity that the issuer knows somebody by: Slack user id or mail address.
    pub(super) fn person(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Person(person) => Some(match &person.identity {
                IssuerIdentity::Slack { user, .. } => user,
                IssuerIdentity::Mail(mail) => mail,
            }),
        }
    }

    /// Slack user id, if they signed in with Slack.
    pub(super) fn user(&self) -> Option<&String> {
        match self {
            Self::Person(person) => match &person.identity {
                IssuerIdentity::Slack { user, .. } => Some(user),
                IssuerIdentity::Mail(_) => None,
            },
            Self::Anyone => None,
        }
    }

    /// CSRF token that every change of theirs has to carry.
    pub(super) fn token(&self) -> Option<String> {
        match self {
            Self::Anyone => None,
            Self::Person(person) => Some(person.seal.token(&person.session)),
        }
    }

    /// Describes the viewer for a page where nothing can be changed but the sign-out.
    pub(super) fn visitor(&self, names: &UserNames) -> PageVisitor {
        let own = self.user().and_then(|user| names.get(user)).map(String::as_str);
        let name = own.or_else(|| self.person()).unwrap_or_default().to_owned();
        PageVisitor { name, token: self.token(), may_stop: false }
    }
}

impl FromRequestParts<PageServices> for PageViewer {
    type Rejection = PageProblem;

    async fn from_request_parts(
        parts: &mut Parts,
        pages: &PageServices,
    ) -> Result<Self, PageProblem> {
        let PageDoor::Signed(sign_in) = &pages.door else { return Ok(Self::Anyone) };
        let keys = sign_in.keys().await.map_err(|error| {
            tracing::warn!(%error, "page_sign_in_unavailable");
            PageProblem::NoSignIn(NO_SECRET)
        })?;
        let name = sign_in.cookie(SESSION);
        let session = read_cookies(parts).find(|(own, _)| *own == name).map(|(_, value)| value);
        let session = session.filter(|session| !sign_in.flows.has_ended(session));
        let opened = session.and_then(|value| {
            let identity: IssuerIdentity = keys.seal.open(SESSION, value, seconds_now())?;
            let (session, seal) = (value.to_owned(), keys.seal.clone());
            Some(Self::Person(Box::new(SignedInPerson { identity, session, seal })))
        });
        opened.ok_or_else(|| PageProblem::SignIn { to: return_path(parts), unsent: is_form(parts) })
    }
}

/// True for a form that was sent, false for a page that was asked for.
fn is_form(parts: &Parts) -> bool {
    !matches!(parts.method, Method::GET | Method::HEAD)
}

/// Path to which somebody returns who has to sign in first. A form's own address shows nothing: its page does.
fn return_path(parts: &Parts) -> String {
    if !is_form(parts) {
        return parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    }
    let page = parts.uri.path().rsplit_once('/').map_or("", |(page, _)| page);
    if page.is_empty() { "/".to_owned() } else { page.to_owned() }
}

/// Reads the cookies of a request as pairs of name and value.
pub(super) fn read_cookies(parts: &Parts) -> impl Iterator<Item = (&str, &str)> {
    let headers = parts.headers.get_all(COOKIE).into_iter();
    let pairs = headers.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

pub(super) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Rights of a viewer in a thread that they may see.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadPermit {
    /// Slack user id; `None` if unknown.
    pub user: Option<String>,
    /// True if they may end what runs in the thread.
    pub steers: bool,
}

/// Channels by namespace, Repo and channel.
type RepoChannels = HashMap<(String, String, String), Arc<Repo>>;

/// Knows which thread was held where, and who is there.
#[derive(Clone)]
pub(super) struct ThreadSight {
    pub context: GatewayContext,
    pub slack: SlackGateway,
}

impl ThreadSight {
    /// Every Repo and channel that a thread is or was held in: where its name leads now, and all that its
    /// history tells. Nothing where that is not known of one of them.
    pub(super) fn origins(
        &self,
        place: &ThreadPlace,
        summary: &ThreadSummary,
    ) -> Option<Vec<(Arc<Repo>, String)>> {
        let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
        let thread = self.context.thread(&ThreadKey { namespace, name });
        let now = thread.and_then(|thread| {
            Some((thread.spec.repo.clone(), thread.conversation()?.channel.clone()))
        });
        let places: BTreeSet<_> = now.into_iter().chain(summary.opened.iter().cloned()).collect();
        let found = places
            .into_iter()
            .map(|(repo, channel)| Some((self.context.repo(place.namespace(), &repo)?, channel)));
        found.collect::<Option<Vec<_>>>().filter(|found| !found.is_empty())
    }

    /// The Repo of a thread and the channel that it was held in, however long ago.
    pub(super) fn origin(
        &self,
        place: &ThreadPlace,
        summary: &ThreadSummary,
    ) -> Option<(Arc<Repo>, String)> {
        let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
        let thread = self.context.thread(&ThreadKey { namespace, name });
        let told = thread.and_then(|thread| {
            Some((thread.spec.repo.clone(), thread.conversation()?.channel.clone()))
        });
        let kept = || {
            let known = !summary.repo.is_empty() && !summary.channel.is_empty();
            known.then(|| (summary.repo.clone(), summary.channel.clone()))
        };
        let (repo, channel) = told.or_else(kept)?;
        Some((self.context.repo(place.namespace(), &repo)?, channel))
    }

    /// Returns a viewer's rights in a thread; `None` if they may not even see it.
    ///
    /// # Errors
    /// When Slack does not say who is in the channel: then nobody sees it.
    pub(super) async fn permit(
        &self,
        viewer: &PageViewer,
        place: &ThreadPlace,
        summary: &ThreadSummary,
    ) -> Result<Option<ThreadPermit>, PageProblem> {
        let PageViewer::Person(person) = viewer else { return Ok(Some(ThreadPermit::default())) };
        let Some(origins) = self.origins(place, summary) else { return Ok(None) };
        let mut permit = ThreadPermit { user: None, steers: true };
        for (repo, channel) in origins {
            let user = self.member(person, &repo, &channel).await?;
            let Some(user) = user else { return Ok(None) };
            permit.steers &= self.slack.may_steer(&repo, &user);
            permit.user = Some(user);
        }
        Ok(Some(permit))
    }

    /// Returns the Slack identity of a viewer in a channel; `None` where pages need no sign-in.
    ///
    /// # Errors
    /// When they are not in it, or Slack does not say.
    pub(super) async fn find_member(
        &self,
        viewer: &PageViewer,
        repo: &Repo,
        channel: &str,
    ) -> Result<Option<String>, PageProblem> {
        let PageViewer::Person(person) = viewer else { return Ok(None) };
        let user = self.member(person, repo, channel).await?;
        user.map(Some).ok_or(PageProblem::NotShown)
    }

    async fn member(
        &self,
        person: &SignedInPerson,
        repo: &Repo,
        channel: &str,
    ) -> Result<Option<String>, PageProblem> {
        let whom = match &person.identity {
            IssuerIdentity::Slack { user, team, enterprise } => {
                ProvenPerson::User(user, team, enterprise.as_deref())
            }
            IssuerIdentity::Mail(mail) => ProvenPerson::Mail(mail),
        };
        let member = self.slack.member(repo, channel, whom).await;
        member.map_err(|error| PageProblem::Unknown(error.message))
    }

    /// Returns the threads that the viewer may see. Threads whose channel can't be checked are left out.
    ///
    /// # Errors
    /// When no thread is left because no channel could be checked.
    pub(super) async fn seen(
        &self,
        viewer: &PageViewer,
        mut all: Vec<ListedThread>,
    ) -> Result<Vec<ListedThread>, PageProblem> {
        self.overlay_all(&mut all);
        let PageViewer::Person(person) = viewer else { return Ok(all) };
        let (mut channels, mut threads) = (RepoChannels::new(), Vec::new());
        for one in all {
            let Ok(place) = one.name.parse::<ThreadPlace>() else { continue };
            let Some(origins) = self.origins(&place, &one.summary) else { continue };
            let namespace = place.namespace();
            let key =
                |repo: &Repo, channel: String| (namespace.to_owned(), repo.name_any(), channel);
            let own = origins.into_iter().map(|(repo, channel)| (key(&repo, channel), repo));
            let own: Vec<_> = own.collect();
            channels.extend(own.iter().cloned());
            threads.push((one, own));
        }
        let asked = channels.into_iter().map(async |(key, repo)| {
            let member = self.member(person, &repo, &key.2).await;
            (key, member.map(|user| user.is_some()))
        });
        let (mut open, mut failed) = (HashSet::new(), None);
        for (key, member) in join_all(asked).await {
            match member {
                Ok(true) => {
                    open.insert(key);
                }
                Ok(false) => {}
                Err(problem) => failed = Some(problem),
            }
        }
        let seen =
            threads.into_iter().filter(|(_, own)| own.iter().all(|(key, _)| open.contains(key)));
        let seen: Vec<_> = seen.map(|(one, _)| one).collect();
        failed.filter(|_| seen.is_empty()).map_or(Ok(seen), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_a_form_without_a_session_returns_to_its_page() {
        let path = |method: Method, address: &str| {
            let request = http::Request::builder().method(method).uri(address).body(()).unwrap();
            return_path(&request.into_parts().0)
        };
        assert_eq!(path(Method::GET, "/team/shop-1?from=3"), "/team/shop-1?from=3");
        assert_eq!(path(Method::POST, "/team/shop-1/reply"), "/team/shop-1");
        assert_eq!(path(Method::POST, "/sign-out"), "/");
    }
}
