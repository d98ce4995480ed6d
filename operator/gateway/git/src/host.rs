//! The Repo's Git host, spoken to in Git's protocol 2 (and for pushes in the only one there is) by
//! this process itself: the credential is in no argument, no environment and no file.

mod patience;
mod talk;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use codebutler_crds::Repo;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::credential::RemoteCredential;
use codebutler_gateway_core::dial::{DialTrouble, find_trouble};
use codebutler_gateway_core::github::GitHubError;
use codebutler_gateway_core::github::text::one_line;
use codebutler_gateway_core::remote::Remote;
use http::StatusCode;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use self::patience::TransferSpeed;
use self::talk::{
    FetchSections, MAX_ABILITIES, MAX_ANSWER, PATIENCE, PUSHED, ask_for_pack, ask_for_refs,
    read_object_format, read_refs, read_report,
};
use super::pktline::{self, PacketError};
use super::service::{FETCH, PROTOCOL, PUSH};

#[cfg(test)]
pub(crate) use self::talk::fuzz_talk;
pub(crate) use self::talk::{PushVerdict, ask_for_update};

/// The kind of what is said about Git LFS.
const LFS: &str = "application/vnd.git-lfs+json";
/// Longest answer about it, in bytes.
const MAX_LFS: usize = 1024 * 1024;

/// GitHub's words for a branch that takes no push, whatever is in it: a role can't fix that.
const PROTECTED: [&str; 4] = [
    "GH006",
    "must be made through a pull request",
    "Cannot update this protected ref",
    "Required status check",
];
/// Words for a push that such a branch takes once the role has put its commits on top, one by one.
const MENDABLE: [&str; 2] = ["force-push", "must not contain merge commits"];
/// Most characters of these words that people are told.
const MAX_SAID: usize = 290;

/// Longest time for a piece of a pack to be taken by its reader.
const TAKEN: Duration = Duration::from_mins(10);

/// Object ids by the full names of refs.
pub(crate) type RemoteRefs = BTreeMap<String, String>;

/// A request to a Git host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A person has to correct the Repo or its Secret.
    #[error("{0}")]
    Repo(String),
    /// The repository has another name by now.
    #[error("{0} says that the repository has moved: correct spec.git.url")]
    Moved(String),
    /// The credential can't be used.
    #[error(transparent)]
    Credentials(#[from] GitHubError),
    /// The host can't be reached, or the connection broke off.
    #[error("{0} can't be reached: try again")]
    Unreachable(String),
    /// The host sends, but so slowly that it would never end.
    #[error("{0} sends almost nothing, less than 1000 bytes a second: try again")]
    TooSlow(String),
    /// Something on the way to it that a person has to fix.
    #[error("{0} can't be reached: {1}")]
    Barred(String, DialTrouble),
    /// The credential was taken back before anything was done, and there is another one now.
    #[error("{0} has taken back a token: try again")]
    Renewed(String),
    /// The host has trouble of its own.
    #[error("{0} failed with status {1}: try again")]
    Status(String, u16),
    /// The remote is a shallow clone: roles would be told a wrong history.
    #[error(
        "{0} has a shallow clone there, whose history is cut off: run `git fetch --unshallow` in it"
    )]
    Shallow(String),
    /// The answer is not one of Git's protocol 2.
    #[error("{0} does not speak Git's protocol 2: {1}")]
    Protocol(String, String),
}

impl HostError {
    /// True if a person has to correct the Repo or its Secret; retrying does not help.
    pub const fn is_about_repo(&self) -> bool {
        match self {
            Self::Repo(_) | Self::Moved(_) | Self::Barred(..) | Self::Shallow(_) => true,
            Self::Credentials(error) => error.is_about_repo(),
            Self::Unreachable(_)
            | Self::TooSlow(_)
            | Self::Renewed(_)
            | Self::Status(..)
            | Self::Protocol(..) => false,
        }
    }

    /// True if the failure is transient and a retry may succeed.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow(_) | Self::Renewed(_) | Self::Status(..) => true,
            Self::Credentials(error) => !error.is_about_repo(),
            Self::Repo(_)
            | Self::Moved(_)
            | Self::Barred(..)
            | Self::Shallow(_)
            | Self::Protocol(..) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    pub name: String,
    /// Expected current value of the ref; None if it must not exist.
    pub old: Option<String>,
    pub new: String,
}

/// A Repo's remote with its credential.
pub struct GitHost {
    http: reqwest::Client,
    remote: Remote,
    credential: RemoteCredential,
}

impl GitHost {
    /// The host of a Repo.
    ///
    /// # Errors
    /// When URL or credential can't be used.
    pub async fn of(context: &GatewayContext, repo: &Repo) -> Result<Self, HostError> {
        let remote =
            Remote::parse(&repo.spec.git.url).map_err(|e| HostError::Repo(e.to_string()))?;
        let remote = context.github.moved.of(&remote).unwrap_or(remote);
        let credential = RemoteCredential::of(context, repo, &remote).await?;
        Ok(Self { http: context.http().clone(), remote, credential })
    }

    /// Host name, for people.
    pub fn host(&self) -> &str {
        &self.remote.host
    }

    /// Explains a refusal of a push that a person has to do something about. `words`: the host's, masked.
    pub(crate) fn explain_refusal(&self, words: &str) -> Option<GitHubError> {
        let (host, secret) = (self.remote.host.clone(), self.credential.secret().to_owned());
        if words.contains("must have verified signatures") {
            return Some(GitHubError::Unsigned { host });
        }
        if is_protected(words) {
            return Some(GitHubError::Protected { host, said: one_line(words, MAX_SAID) });
        }
        if !GitHubError::refuses_workflows(words) {
            return None;
        }
        self.credential.forget();
        Some(GitHubError::Workflows { host, secret, said: String::new() })
    }

    /// Renews an App's token with which a push was refused for want of the permission for workflows, and answers whether
    /// there is another one: a token keeps the permissions that the App had when it was made.
    pub(crate) async fn renew_for_workflows(&self, verdict: &PushVerdict) -> bool {
        let Some(why) = &verdict.refused else { return false };
        if !GitHubError::refuses_workflows(&format!("{why} {}", verdict.said)) {
            return false;
        }
        let token = self.credential.token();
        self.credential.renew(&token).await.unwrap_or(false)
    }

    /// Branches and tags as they are now.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn refs(&self) -> Result<RemoteRefs, HostError> {
        let bytes = self.list_refs(&["refs/heads/", "refs/tags/"]).await?;
        if bytes.is_empty() {
            // So Git ends where it and we name objects differently; only its own list of abilities says it.
            if let Some(format) = self.object_format().await? {
                return Err(HostError::Repo(format!(
                    "Git says “mismatched object format: server {format}; client sha1”: CodeButler can't work in a \
                     repository whose objects are named with {format}; name one with SHA-1 in spec.git.url"
                )));
            }
        }
        read_refs(&bytes).map_err(|error| self.nonsense(&error))
    }

    /// Refs whose names begin so, as they are now.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn refs_below(&self, prefix: &str) -> Result<RemoteRefs, HostError> {
        let bytes = self.list_refs(&[prefix]).await?;
        read_refs(&bytes).map_err(|error| self.nonsense(&error))
    }

    async fn list_refs(&self, prefixes: &[&str]) -> Result<BytesMut, HostError> {
        let mut answer = self.ask(FETCH, ask_for_refs(prefixes).into()).await?;
        let (mut bytes, mut speed) = (BytesMut::new(), TransferSpeed::new(Instant::now()));
        while let Some(chunk) = self.chunk(&mut answer).await? {
            self.need_speed(&mut speed, chunk.len())?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER {
                return Err(self.nonsense(&"it has too many branches and tags"));
            }
        }
        Ok(bytes)
    }

    /// Object format of the remote, if it is not SHA-1.
    async fn object_format(&self) -> Result<Option<String>, HostError> {
        let request = self
            .http
            .get(format!("{}/info/refs?service={FETCH}", self.remote.git))
            .header(AUTHORIZATION, self.credential.header(basic_auth)?)
            .header(PROTOCOL, "version=2")
            .timeout(PATIENCE);
        let mut answer = request.send().await.map_err(|error| self.unsent(error))?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk(&mut answer).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ABILITIES {
                break;
            }
        }
        Ok(read_object_format(&bytes))
    }

    /// Writes a pack with everything that `wants` need and `haves` don't lead to.
    ///
    /// # Errors
    /// When it does not arrive whole. What was written then is no pack.
    pub async fn fetch(
        &self,
        wants: &[&str],
        haves: &[&str],
        pack: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), HostError> {
        let mut answer = self.ask(FETCH, ask_for_pack(wants, haves).into()).await?;
        let (mut buffer, mut sections) = (BytesMut::new(), FetchSections::default());
        let mut speed = TransferSpeed::new(Instant::now());
        while let Some(chunk) = self.chunk(&mut answer).await? {
            // A packet that never gets whole is too slow, too.
            self.need_speed(&mut speed, 0)?;
            buffer.extend_from_slice(&chunk);
            let wrong = |error: PacketError| self.nonsense(&error);
            while let Some((packet, used)) = pktline::read_packet(&buffer).map_err(wrong)? {
                let data = sections.read(packet).map_err(|error| self.nonsense(&error))?;
                if sections.is_cut_off() {
                    return Err(HostError::Shallow(self.remote.host.clone()));
                }
                // A host that still puts the pack together sends empty pieces.
                self.need_speed(&mut speed, data.map_or(0, <[u8]>::len))?;
                if let Some(data) = data {
                    // The reader says itself why it wants no more.
                    let written = timeout(TAKEN, pack.write_all(data)).await;
                    if !matches!(written, Ok(Ok(()))) {
                        return Ok(());
                    }
                }
                buffer.advance(used);
            }
        }
        if sections.is_whole() { Ok(()) } else { Err(self.away()) }
    }

    /// Changes a ref. The pack has to hold all that the host lacks.
    ///
    /// # Errors
    /// When it can't be told whether the ref has changed, but for errors that
    /// [are about the Repo](HostError::is_about_repo): then it has not.
    pub async fn push(
        &self,
        update: &RefUpdate,
        pack: reqwest::Body,
    ) -> Result<PushVerdict, HostError> {
        let mut answer = self.ask(PUSH, pack).await?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk(&mut answer).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER {
                return Err(self.nonsense(&"its answer to a push is too long"));
            }
        }
        read_report(&bytes, &update.name).ok_or_else(|| self.away())
    }

    /// Sends a request to the host's Git LFS batch API; None where the host has no LFS.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn lfs(&self, question: &Value) -> Result<Option<Value>, HostError> {
        let token = self.credential.token();
        let mut response = self.ask_lfs(question).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.credential.renew(&token).await? {
            response = self.ask_lfs(question).await?;
        }
        if matches!(response.status().as_u16(), 403 | 404 | 405 | 410 | 422 | 501) {
            return Ok(None);
        }
        if let Some(why) =
            host_complaint(response.status(), &self.remote.host, self.credential.secret())
        {
            return Err(why);
        }
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_LFS {
                return Err(self.nonsense(&"its answer about Git LFS is too long"));
            }
        }
        let answer = serde_json::from_slice(&bytes);
        answer.map(Some).map_err(|_| self.nonsense(&"its answer about Git LFS is none"))
    }

    async fn ask_lfs(&self, question: &Value) -> Result<reqwest::Response, HostError> {
        let repository = self.remote.git.trim_end_matches(".git");
        let request = self
            .http
            .post(format!("{repository}.git/info/lfs/objects/batch"))
            .header(AUTHORIZATION, self.credential.header(basic_auth)?)
            .header(ACCEPT, LFS)
            .header(CONTENT_TYPE, LFS)
            .timeout(PATIENCE)
            .body(question.to_string());
        request.send().await.map_err(|error| self.unsent(error))
    }

    /// An App's token that was taken back is refused before anything is done: what can be sent again
    /// is, with the next one.
    async fn ask(
        &self,
        service: &'static str,
        body: reqwest::Body,
    ) -> Result<reqwest::Response, HostError> {
        let token = self.credential.token();
        let copy = body.as_bytes().map(Bytes::copy_from_slice);
        let mut response = self.ask_once(service, body).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.credential.renew(&token).await? {
            let Some(copy) = copy else {
                return Err(HostError::Renewed(self.remote.host.clone()));
            };
            response = self.ask_once(service, copy.into()).await?;
        }
        match host_complaint(response.status(), &self.remote.host, self.credential.secret()) {
            Some(why) => Err(why),
            None => Ok(response),
        }
    }

    async fn ask_once(
        &self,
        service: &'static str,
        body: reqwest::Body,
    ) -> Result<reqwest::Response, HostError> {
        // A host looks for secrets in a push, and says nothing meanwhile.
        let patience = if service == PUSH { PUSHED } else { PATIENCE };
        let (body, seen) = patience::watch_body(body);
        let mut request = self
            .http
            .post(format!("{}/{service}", self.remote.git))
            .header(AUTHORIZATION, self.credential.header(basic_auth)?)
            .header(CONTENT_TYPE, format!("application/x-{service}-request"))
            .header(ACCEPT, format!("application/x-{service}-result"))
            .body(body);
        if service == FETCH {
            request = request.header(PROTOCOL, "version=2");
        }
        let sent = patience::await_outcome(request.send(), &seen, patience).await;
        sent.ok_or_else(|| self.away())?.map_err(|error| self.unsent(error))
    }

    fn unsent(&self, error: reqwest::Error) -> HostError {
        let (host, error) = (&self.remote.host, error.without_url());
        tracing::warn!(%error, host, "git_host_failed");
        find_trouble(&error).map_or_else(|| self.away(), |why| HostError::Barred(host.clone(), why))
    }

    async fn chunk(&self, answer: &mut reqwest::Response) -> Result<Option<Bytes>, HostError> {
        match timeout(PATIENCE, answer.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(_)) | Err(_) => Err(self.away()),
        }
    }

    fn need_speed(&self, speed: &mut TransferSpeed, received: usize) -> Result<(), HostError> {
        if speed.is_enough(received, Instant::now()) {
            Ok(())
        } else {
            Err(HostError::TooSlow(self.remote.host.clone()))
        }
    }

    fn away(&self) -> HostError {
        HostError::Unreachable(self.remote.host.clone())
    }

    fn nonsense(&self, why: &dyn Display) -> HostError {
        HostError::Protocol(self.remote.host.clone(), why.to_string())
    }
}

/// True for words about a branch that takes no push of anybody's.
fn is_protected(words: &str) -> bool {
    let says = |part: &&str| words.contains(*part);
    !MENDABLE.iter().any(says) && PROTECTED.iter().any(says)
}

fn basic_auth(token: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("x-access-token:{token}")))
}

fn host_complaint(status: StatusCode, host: &str, secret: &str) -> Option<HostError> {
    if let Some(why) = DialTrouble::by_status(status.as_u16()) {
        return Some(HostError::Barred(host.to_owned(), why));
    }
    let why = match status.as_u16() {
        200 => return None,
        300..=399 => return Some(HostError::Moved(host.to_owned())),
        401 => format!("{host} refused the token of Secret `{secret}`: put a valid one into it"),
        403 => {
            format!("{host} does not let the token of Secret `{secret}` do this: extend its rights")
        }
        404 => format!(
            "{host} has no such repository, or hides it from the token of Secret `{secret}`: check spec.git.url"
        ),
        status => return Some(HostError::Status(host.to_owned(), status)),
    };
    Some(HostError::Repo(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_role_can_not_mend_is_a_branch_that_takes_no_push() {
        let of_branch =
            "error: GH006: Protected branch update failed for refs/heads/codebutler/t.\n";
        for (words, is_closed) in [
            ("Changes must be made through a pull request.", true),
            ("Required status check \"ci\" is expected.", true),
            ("Cannot force-push to this branch", false),
            ("This branch must not contain merge commits.", false),
        ] {
            assert_eq!(is_protected(&format!("{of_branch}error: {words}")), is_closed, "{words}");
        }
        assert!(!is_protected("error: GH013: - Push cannot contain secrets"));
    }
}
