//! Members of a channel, for the check of who may read what happens in it. Cached for moments only: who leaves
//! is soon out.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, SlackTs};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::keyed::KeyedLocks;
use serde::Deserialize;

use crate::api::account::SlackAccount;
use crate::api::web::CallError;
use crate::bounded_memory::BoundedMemory;
use crate::people::access;
use crate::{Inner, SlackGateway};

/// Time for which an answer counts.
const FRESH: Duration = Duration::from_secs(15);
/// Time for which an answer counts while Slack gives no other.
const LONGEST: Duration = Duration::from_secs(35);
const NO_MAILS: &str = "The Slack app may not look for people by their e-mail address, by which you signed in. Whoever looks \
    after it adds the bot scope `users:read.email` and installs it again";
/// Limit of pages, of a thousand people each.
const PAGES: usize = 50;

/// Cache of channel members, by workspace and channel.
type ChannelMembers = BoundedMemory<(String, String), (Arc<HashSet<String>>, Instant)>;

/// Cache of users by workspace and e-mail address.
type MailUsers = BoundedMemory<(String, String), (Option<String>, Instant)>;

/// People of channels and workspaces that were looked up.
#[derive(Default)]
pub(crate) struct MemberLookups {
    channels: ChannelMembers,
    mails: MailUsers,
    /// Locks that let one question about a channel be asked at a time.
    asking: KeyedLocks<(String, String)>,
}

/// Proven identity of somebody.
#[derive(Clone, Copy, Debug)]
pub enum ProvenPerson<'a> {
    /// A Slack account: user, workspace, organisation.
    User(&'a str, &'a str, Option<&'a str>),
    /// An e-mail address that is proven to be theirs.
    Mail(&'a str),
}

#[derive(Deserialize)]
struct MembersAnswer {
    members: Vec<String>,
    #[serde(default)]
    response_metadata: NextPage,
}

#[derive(Default, Deserialize)]
struct NextPage {
    #[serde(default)]
    next_cursor: String,
}

#[derive(Deserialize)]
struct UserAnswer {
    user: FoundUser,
}

#[derive(Deserialize)]
struct FoundUser {
    id: String,
}

impl SlackGateway {
    /// Returns the Slack user id of somebody who is in a channel of a Repo's workspace; `None` if they are not.
    ///
    /// # Errors
    /// When Slack does not say.
    pub async fn member(
        &self,
        repo: &Repo,
        channel: &str,
        whom: ProvenPerson<'_>,
    ) -> Result<Option<String>, ApiError> {
        let inner = &self.inner;
        let account = inner.account(repo).await.map_err(|error| members_unknown(&error))?;
        let user = match whom {
            ProvenPerson::User(user, team, enterprise) => {
                let own = account.team.as_deref() == Some(team);
                let colleague = enterprise.is_some() && enterprise == account.enterprise.as_deref();
                if !own && !colleague {
                    return Ok(None);
                }
                user.to_owned()
            }
            ProvenPerson::Mail(address) => match inner.user_of(&account, address).await {
                Ok(Some(user)) => user,
                Ok(None) => return Ok(None),
                Err(error) if error.code() == Some("missing_scope") => {
                    tracing::warn!(%error, "slack_scope_missing");
                    return Err(not_available(NO_MAILS));
                }
                Err(error) => return Err(members_unknown(&error)),
            },
        };
        let members =
            inner.members(&account, channel).await.map_err(|error| members_unknown(&error))?;
        Ok(members.contains(&user).then_some(user))
    }

    /// True if somebody may steer what a Repo's team does.
    pub fn may_steer(&self, repo: &Repo, user: &str) -> bool {
        access::permits_user(&repo.spec.access.users, user)
    }

    /// Ends what runs in a thread, as a word of this user in it does.
    ///
    /// # Errors
    /// A sentence, when it could not be stored.
    pub async fn stop(&self, key: &ThreadKey, user: &str) -> Result<(), ApiError> {
        let inner = &self.inner;
        let (thread, repo) = inner.conversation(key)?;
        let root = require_conversation(&thread)?.ts.clone();
        let account = inner.account(&repo).await.map_err(|error| members_unknown(&error))?;
        let channel = inner.channel(&repo, &account);
        let at = slack_now().ok_or_else(|| not_available("the clock is wrong"))?;
        let stopped = inner.stop(&channel, &root, &at, user).await;
        let effects = stopped.map_err(|error| {
            tracing::warn!(%error, "stop_write_failed");
            not_available("it could not be stored: try again")
        })?;
        self.inner.follow_up(effects);
        Ok(())
    }

    /// Names of people, as far as Slack tells. Looks up at most `most` that are not known yet.
    pub async fn names(
        &self,
        repo: &Repo,
        users: impl Iterator<Item = &String>,
        most: usize,
    ) -> Vec<(String, String)> {
        let (inner, users) = (&self.inner, users.collect::<Vec<_>>());
        let unknown: Vec<_> =
            users.iter().filter(|user| !inner.knows_person(repo, user)).take(most).collect();
        if !unknown.is_empty()
            && let Ok(account) = inner.account(repo).await
        {
            let asked = unknown.into_iter().map(async |user| {
                inner.person((repo, &account), user).await.ok();
            });
            // People who are not known by then are known with the next look.
            let asked = futures::future::join_all(asked);
            tokio::time::timeout(Duration::from_secs(3), asked).await.ok();
        }
        let named = |user: &String| Some((user.clone(), inner.known_name(repo, user)?));
        users.into_iter().filter_map(named).collect()
    }
}

impl Inner {
    pub(crate) async fn members(
        &self,
        account: &SlackAccount,
        channel: &str,
    ) -> Result<Arc<HashSet<String>>, CallError> {
        let key = (account.workspace.clone().unwrap_or_default(), channel.to_owned());
        let fresh = |known: &Option<(Arc<HashSet<String>>, Instant)>, most| {
            known.as_ref().filter(|(_, at)| at.elapsed() < most).map(|(known, _)| Arc::clone(known))
        };
        if let Some(known) = fresh(&self.people.channels.get(&key), FRESH) {
            return Ok(known);
        }
        // Of many callers at once, one asks Slack.
        let _turn = self.people.asking.lock(&key).await;
        let known = self.people.channels.get(&key);
        if let Some(known) = fresh(&known, FRESH) {
            return Ok(known);
        }
        let asked = Instant::now();
        match self.read_members(account, channel).await {
            Ok(members) => {
                let members = Arc::new(members);
                self.people.channels.keep(key, (Arc::clone(&members), asked));
                Ok(members)
            }
            // One hiccup puts nobody out.
            Err(error) if error.code().is_none() => fresh(&known, LONGEST).ok_or(error),
            Err(error) => Err(error),
        }
    }

    async fn read_members(
        &self,
        account: &SlackAccount,
        channel: &str,
    ) -> Result<HashSet<String>, CallError> {
        let (mut members, mut cursor) = (HashSet::new(), String::new());
        for _ in 0..PAGES {
            let mut params = vec![("channel", channel), ("limit", "1000")];
            if !cursor.is_empty() {
                params.push(("cursor", &cursor));
            }
            let page: MembersAnswer =
                self.web.get(&account.bot, "conversations.members", &params).await?;
            members.extend(page.members);
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() {
                break;
            }
        }
        Ok(members)
    }

    async fn user_of(
        &self,
        account: &SlackAccount,
        mail: &str,
    ) -> Result<Option<String>, CallError> {
        let key = (account.workspace.clone().unwrap_or_default(), mail.to_owned());
        if let Some((user, at)) = self.people.mails.get(&key)
            && at.elapsed() < FRESH
        {
            return Ok(user);
        }
        let params = [("email", mail)];
        let found = self.web.get::<UserAnswer>(&account.bot, "users.lookupByEmail", &params).await;
        let user = match found {
            Ok(found) => Some(found.user.id),
            Err(error) if error.code() == Some("users_not_found") => None,
            Err(error) => return Err(error),
        };
        self.people.mails.keep(key, (user.clone(), Instant::now()));
        Ok(user)
    }
}

fn slack_now() -> Option<SlackTs> {
    let since = std::time::UNIX_EPOCH.elapsed().ok()?;
    format!("{}.{:06}", since.as_secs(), since.subsec_micros()).parse().ok()
}

fn members_unknown(error: &impl std::fmt::Display) -> ApiError {
    tracing::warn!(%error, "channel_members_unknown");
    not_available("Slack does not say who is in the channel right now: try again in a minute")
}

fn not_available(message: &str) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, message)
}
