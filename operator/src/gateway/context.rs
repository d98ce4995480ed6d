//! What every part of the gateway shares: watch caches, secrets by name, and the error that an
//! agent sees.

use std::fmt;
use std::sync::Arc;

use codebutler_crds::repo::SecretRef;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::wire::{ErrorBody, ErrorCode, ErrorDetail};
use codebutler_crds::{AgentRole, Repo, Thread, names};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt as _};
use url::Url;

use super::attended::Attended;
use super::dial::{Dialer, Reach, Trouble};
use super::github::Access;
use super::history::History;
use super::redact::{Redactors, log};
use super::remote::{allows, named};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    pub namespace: String,
    pub name: String,
}

impl From<&Thread> for ThreadKey {
    fn from(thread: &Thread) -> Self {
        Self { namespace: thread.namespace().unwrap_or_default(), name: thread.name_any() }
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Where a Thread's conversation is.
///
/// # Errors
/// When it was not opened yet.
pub fn conversation(thread: &Thread) -> Result<&SlackThread, ApiError> {
    let message = "the conversation in Slack is not opened yet: try again";
    thread.conversation().ok_or_else(|| ApiError::new(ErrorCode::Unavailable, message))
}

/// Clients and watch caches. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The gateway's own identity.
    pub client: Client,
    /// The operator's namespace, where AgentRoles are looked up second.
    pub namespace: String,
    pub repos: Store<Repo>,
    pub roles: Store<AgentRole>,
    pub threads: Store<Thread>,
    /// Those in which anything may still happen.
    pub attended: Attended,
    /// Masks what must not leave, with each Repo's own patterns.
    pub redactors: Redactors,
    /// What calls to GitHub share.
    pub github: Access,
    pub dialer: Dialer,
    /// What happened in each conversation.
    pub history: History,
    /// Where people watch conversations, without a slash at the end.
    pub pages: Option<Arc<str>>,
}

impl Context {
    /// Waits until all caches are filled. To be waited for in one place at a time: of several that wait
    /// for a store, kube 5 wakes the last one only.
    ///
    /// # Errors
    /// When a cache ended before.
    pub async fn synced(&self) -> Result<(), WriterDropped> {
        self.repos.wait_until_ready().await?;
        self.roles.wait_until_ready().await?;
        self.threads.wait_until_ready().await
    }

    /// A Repo from the cache.
    pub fn repo(&self, namespace: &str, name: &str) -> Option<Arc<Repo>> {
        self.repos.get(&ObjectRef::new(name).within(namespace))
    }

    /// A Thread from the cache; it can lag behind the API server by moments.
    pub fn thread(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        self.threads.get(&ObjectRef::new(&key.name).within(&key.namespace))
    }

    /// The AgentRoles that a Repo names, in its order: from its namespace, else the operator's.
    /// Names that don't exist are left out; the controller reports them.
    pub fn roles_of(&self, repo: &Repo) -> Vec<Arc<AgentRole>> {
        let namespace = repo.namespace().unwrap_or_default();
        let find = |ns: &str, name: &str| self.roles.get(&ObjectRef::new(name).within(ns));
        let found = |name: &String| find(&namespace, name).or_else(|| find(&self.namespace, name));
        repo.spec.roles.iter().filter_map(found).collect()
    }

    /// Address of the page on a Thread, if there is one.
    pub fn page(&self, thread: &ThreadKey) -> Option<String> {
        self.pages.as_ref().map(|base| format!("{base}/{thread}"))
    }

    /// The client for model providers and Git hosts.
    pub fn http(&self) -> &reqwest::Client {
        self.dialer.http(Reach::Outside)
    }

    /// One key of a Secret that a Repo names, provided that the Secret may be sent to a URL by its
    /// annotation, and that whoever chose the URL may choose what it leads to.
    ///
    /// # Errors
    /// A sentence that names Secret, key or annotation, and never the value.
    pub async fn secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
        key: &str,
        to: (&Url, Reach),
    ) -> Result<String, SecretError> {
        self.open_secret(namespace, reference, to).await?.value(key)
    }

    /// The whole Secret, under the same condition.
    ///
    /// # Errors
    /// A sentence that names Secret or annotation.
    pub async fn open_secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
        (url, reach): (&Url, Reach),
    ) -> Result<OpenedSecret, SecretError> {
        let name = &reference.name;
        let host = || named(url).unwrap_or_default();
        if reach == Reach::Outside && self.dialer.admit(url).is_err() {
            return Err(SecretError::Internal { name: name.clone(), host: host() });
        }
        let opened = self.read_secret(namespace, reference).await?;
        let annotations = opened.secret.annotations();
        let allowed = annotations.get(names::ANNOTATION_HOSTS).map_or("", String::as_str);
        if !allows(allowed, url) {
            return Err(SecretError::Host { name: name.clone(), host: host() });
        }
        Ok(opened)
    }

    /// The whole Secret, for what is sent nowhere: no annotation has to allow it.
    ///
    /// # Errors
    /// A sentence that names the Secret.
    pub async fn read_secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
    ) -> Result<OpenedSecret, SecretError> {
        let name = &reference.name;
        let secret = Api::<Secret>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(|source| self.unread(namespace, name, source))?
            .ok_or_else(|| SecretError::Missing { name: name.clone() })?;
        Ok(OpenedSecret { name: name.clone(), secret })
    }

    fn unread(&self, namespace: &str, name: &str, source: kube::Error) -> SecretError {
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        match source {
            kube::Error::Api(refused) if refused.code == 403 => {
                SecretError::Forbidden { name, namespace, system: self.namespace.clone() }
            }
            source => SecretError::Unreadable { name, source },
        }
    }
}

/// A Secret that may be used for what it is wanted for.
pub struct OpenedSecret {
    pub name: String,
    secret: Secret,
}

impl OpenedSecret {
    /// Whether a key holds anything.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_ok()
    }

    /// The value of one key.
    ///
    /// # Errors
    /// A sentence that names Secret and key.
    pub fn value(&self, key: &str) -> Result<String, SecretError> {
        self.secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(|value| String::from_utf8(value.0.clone()).ok())
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .inspect(|value| log::hold(value))
            .ok_or_else(|| SecretError::Key { name: self.name.clone(), key: key.to_owned() })
    }

    /// Another one after every change, and for every other Secret.
    pub fn revision(&self) -> String {
        let uid = self.secret.uid().unwrap_or_default();
        format!("{uid}/{}", self.secret.resource_version().unwrap_or_default())
    }
}

/// Why a credential can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("Secret `{name}` does not exist: create it, or name another one in the Repo")]
    Missing { name: String },
    /// The key is absent or empty.
    #[error("Secret `{name}` has no usable key `{key}`: add it")]
    Key { name: String, key: String },
    /// The annotation does not allow this host.
    #[error(
        "Secret `{name}` may not be sent to `{host}`: add the host to its annotation `{}`",
        names::ANNOTATION_HOSTS
    )]
    Host {
        name: String,
        /// The host it would have been sent to.
        host: String,
    },
    /// The host is nothing that a Repo may name.
    #[error("Secret `{name}` is not sent to `{host}`: {}", Trouble::Internal)]
    Internal {
        name: String,
        /// The host it would have been sent to.
        host: String,
    },
    /// The team has not let the gateway read its Secrets.
    #[error(
        "Secret `{name}` can't be read: the gateway has no right on Secrets of this namespace. Give it: \
         kubectl -n {namespace} create rolebinding {0} --clusterrole={0} --serviceaccount={system}:{1}",
        names::SECRETS_ROLE,
        names::GATEWAY
    )]
    Forbidden { name: String, namespace: String, system: String },
    #[error("Secret `{name}` can't be read")]
    Unreadable {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// Who calls: proven by a pod's token, resolved to a role of a Thread.
#[derive(Clone)]
pub struct Caller {
    /// The Thread, as cached when the call came in.
    pub thread: Arc<Thread>,
    pub repo: Arc<Repo>,
    pub role: Arc<AgentRole>,
}

impl Caller {
    pub fn key(&self) -> ThreadKey {
        ThreadKey::from(&*self.thread)
    }

    pub fn role_name(&self) -> &str {
        &self.role.spec.role
    }

    /// Whether the role has a tool.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.role.spec.tools.offered().any(|offered| offered == tool)
    }
}

/// A refusal, as the agent sees it. Never carries a secret or an upstream's raw answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Stable code; decides the HTTP status.
    pub code: ErrorCode,
    /// A sentence that says what to do.
    pub message: String,
    /// Seconds after which asking again may help.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal with a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    /// The body in the shape of OpenAI's errors.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code,
                message: self.message.clone(),
                type_: "codebutler_error".to_owned(),
                retry_after: self.retry_after,
            },
        }
    }
}
