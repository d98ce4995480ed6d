//! Who looks at pages, and what of them they may see: what they may see in Slack, and nothing more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::FromRequestParts;
use codebutler_crds::Repo;
use codebutler_crds::names::secret_key;
use codebutler_crds::repo::SecretRef;
use codebutler_history::ThreadPlace;
use codebutler_pages::{ListedThread, PageVisitor, ThreadSummary};
use futures::future::join_all;
use http::header::COOKIE;
use http::request::Parts;
use tokio::sync::Mutex;

use super::issuer::{ClientRegistration, IssuerIdentity, OpenIdIssuer};
use super::options::SignInPlan;
use super::seal::CookieSeal;
use super::{PageProblem, Pages};
use crate::gateway::context::GatewayContext;
use crate::gateway::dial::DialReach;
use crate::gateway::secrets::SecretError;
use crate::gateway::slack::{ProvenPerson, SlackGateway};
use crate::gateway::thread_key::ThreadKey;

/// How long a Secret is not read again.
const FRESH: Duration = Duration::from_mins(1);
/// Of the cookie that says who somebody is.
pub const SESSION: &str = "session";

/// Where the issuer sends people back to.
pub const DONE: &str = "/sign-in/done";
/// Nothing of the Secret is told.
pub const NO_SECRET: &str = "The Secret of `pages.secret` can't be used.";

/// Whether people have to say who they are.
#[derive(Clone)]
pub enum PageDoor {
    /// Whoever reaches the address sees everything.
    Open,
    Signed(Arc<SignIn>),
}

/// What it takes to sign in.
pub struct SignIn {
    pub plan: SignInPlan,
    pub issuer: OpenIdIssuer,
    context: GatewayContext,
    keys: Mutex<Option<(Instant, Arc<DoorKeys>)>>,
}

/// From the Secret. No Debug.
pub struct DoorKeys {
    pub registration: ClientRegistration,
    pub seal: CookieSeal,
}

impl SignIn {
    pub fn new(plan: SignInPlan, context: GatewayContext) -> Self {
        let issuer = OpenIdIssuer::new(plan.kind, &plan.issuer, context.dialer.clone());
        Self { plan, issuer, context, keys: Mutex::default() }
    }

    /// What the Secret says now.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn keys(&self) -> Result<Arc<DoorKeys>, SecretError> {
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

    /// Begins with this where cookies go over TLS alone: then nobody else can have set them.
    pub fn cookie(&self, name: &str) -> String {
        let prefix = if self.is_secure() { "__Host-" } else { "" };
        format!("{prefix}codebutler-{name}")
    }

    pub fn is_secure(&self) -> bool {
        self.plan.own.scheme() == "https"
    }
}

/// Who asks.
#[derive(Clone)]
pub enum PageViewer {
    /// Who reached an open address.
    Anyone,
    Person(Box<SignedInPerson>),
}

/// Somebody who has signed in.
#[derive(Clone)]
pub struct SignedInPerson {
    pub identity: IssuerIdentity,
    /// The cookie's value, which their changes are bound to.
    session: String,
    seal: CookieSeal,
}

impl SignedInPerson {
    /// Whether a change comes from a page that this person was shown.
    pub fn sent(&self, token: &str) -> bool {
        self.seal.takes(&self.session, token)
    }
}

impl PageViewer {
    fn name(&self) -> String {
        match self {
            Self::Anyone => String::new(),
            Self::Person(person) => match &person.identity {
                IssuerIdentity::Slack { user, .. } => user.clone(),
                IssuerIdentity::Mail(mail) => mail.clone(),
            },
        }
    }

    /// As pages show it. Of a page on which nothing can be changed but that one may leave.
    pub fn visitor(&self) -> PageVisitor {
        let token = match self {
            Self::Anyone => None,
            Self::Person(person) => Some(person.seal.token(&person.session)),
        };
        PageVisitor { name: self.name(), token, may_stop: false }
    }
}

impl FromRequestParts<Pages> for PageViewer {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, pages: &Pages) -> Result<Self, PageProblem> {
        let PageDoor::Signed(sign_in) = &pages.door else { return Ok(Self::Anyone) };
        let keys = sign_in.keys().await.map_err(|error| {
            tracing::warn!(%error, "nobody can sign in to pages");
            PageProblem::NoSignIn(NO_SECRET)
        })?;
        let name = sign_in.cookie(SESSION);
        let session = read_cookies(parts).find(|(own, _)| *own == name).map(|(_, value)| value);
        let opened = session.and_then(|value| {
            let identity: IssuerIdentity = keys.seal.open(SESSION, value, seconds_now())?;
            let (session, seal) = (value.to_owned(), keys.seal.clone());
            Some(Self::Person(Box::new(SignedInPerson { identity, session, seal })))
        });
        opened.ok_or_else(|| {
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            PageProblem::SignIn { to: path.to_owned() }
        })
    }
}

/// Names and values.
pub fn read_cookies(parts: &Parts) -> impl Iterator<Item = (&str, &str)> {
    let headers = parts.headers.get_all(COOKIE).into_iter();
    let pairs = headers.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What somebody may do with a thread that they see.
#[derive(Clone, Debug, Default)]
pub struct ThreadPermit {
    /// Who they are in Slack.
    pub user: Option<String>,
    /// Whether they may end what runs in it.
    pub steers: bool,
}

/// Threads by namespace, Repo and channel.
type ByChannel = HashMap<(String, String, String), (Arc<Repo>, Vec<ListedThread>)>;

/// Knows which thread was held where, and who is there.
#[derive(Clone)]
pub struct ThreadSight {
    pub context: GatewayContext,
    pub slack: SlackGateway,
}

impl ThreadSight {
    /// The Repo of a thread and the channel that it was held in, however long ago.
    pub fn origin(
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

    /// What somebody may do with a thread; nothing if they may not even see it.
    ///
    /// # Errors
    /// When Slack does not say who is in the channel: then nobody sees it.
    pub async fn permit(
        &self,
        viewer: &PageViewer,
        place: &ThreadPlace,
        summary: &ThreadSummary,
    ) -> Result<Option<ThreadPermit>, PageProblem> {
        let PageViewer::Person(person) = viewer else { return Ok(Some(ThreadPermit::default())) };
        let Some((repo, channel)) = self.origin(place, summary) else { return Ok(None) };
        let user = self.member(person, &repo, &channel).await?;
        Ok(user.map(|user| {
            let steers = self.slack.may_steer(&repo, &user);
            ThreadPermit { user: Some(user), steers }
        }))
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

    /// Those of all threads that somebody sees. What can't be told is left out.
    ///
    /// # Errors
    /// When nothing is left because nothing could be told.
    pub async fn seen(
        &self,
        viewer: &PageViewer,
        all: Vec<ListedThread>,
    ) -> Result<Vec<ListedThread>, PageProblem> {
        let PageViewer::Person(person) = viewer else { return Ok(all) };
        let mut by_channel = ByChannel::new();
        for one in all {
            let Ok(place) = one.name.parse::<ThreadPlace>() else { continue };
            let Some((repo, channel)) = self.origin(&place, &one.summary) else { continue };
            let key = (place.namespace().to_owned(), one.summary.repo.clone(), channel);
            by_channel.entry(key).or_insert_with(|| (repo, Vec::new())).1.push(one);
        }
        let asked = by_channel.into_iter().map(async |((.., channel), (repo, own))| {
            let member = self.member(person, &repo, &channel).await?;
            Ok(if member.is_some() { own } else { Vec::new() })
        });
        let (mut seen, mut failed) = (Vec::new(), None);
        for part in join_all(asked).await {
            match part {
                Ok(own) => seen.extend(own),
                Err(problem) => failed = Some(problem),
            }
        }
        failed.filter(|_| seen.is_empty()).map_or(Ok(seen), Err)
    }
}
