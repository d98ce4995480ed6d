//! Channels that a Repo names instead of giving their id: looked up, joined, and created where the Repo
//! says so. The id is kept in the Repo's status, so a channel can be renamed afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::repo::NamedChannel;
use codebutler_gateway_core::writes;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::explain;
use crate::api::web::CallError;

/// Backoff before a name that was not found is looked for again, doubled each time, and its limit.
const AGAIN: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);
/// Channels per page, the most that Slack takes, and limit of pages: a guard against an endless cursor.
const PAGE: &str = "999";
const PAGES: usize = 200;

/// The Repo's UID, the channel's name, and true if it may be created.
type ChannelKey = (String, String, bool);

/// Names whose lookup is under way or was in vain.
#[derive(Default)]
pub(crate) struct NameLookups(Mutex<HashMap<ChannelKey, ChannelLookup>>);

#[derive(Clone, Copy)]
struct ChannelLookup {
    /// Time of the next lookup; `None` while one is under way.
    again: Option<Instant>,
    tries: u32,
}

impl NameLookups {
    /// Returns true if a lookup is due, and marks it as under way.
    fn begin(&self, key: &ChannelKey) -> bool {
        let mut known = self.0.lock();
        // Drops stale entries: a Repo is asked for again and again, so what nobody asked for in a while is
        // gone.
        let stale = |at: Instant| at.elapsed() > LONGEST;
        known.retain(|_, lookup| lookup.again.is_none_or(|at| !stale(at)));
        let lookup = known
            .entry(key.clone())
            .or_insert(ChannelLookup { again: Some(Instant::now()), tries: 0 });
        let due = lookup.again.is_some_and(|at| at <= Instant::now());
        if due {
            lookup.again = None;
        }
        due
    }

    fn end(&self, key: &ChannelKey) {
        let mut known = self.0.lock();
        let Some(lookup) = known.get_mut(key) else { return };
        let wait = AGAIN.saturating_mul(1 << lookup.tries.min(6)).min(LONGEST);
        *lookup = ChannelLookup { again: Some(Instant::now() + wait), tries: lookup.tries + 1 };
    }
}

#[derive(Deserialize)]
struct ChannelsPage {
    #[serde(default)]
    channels: Vec<FoundChannel>,
    #[serde(default)]
    response_metadata: Option<ChannelsCursor>,
}

#[derive(Deserialize)]
struct ChannelsCursor {
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct FoundChannel {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    is_private: bool,
    #[serde(default)]
    is_member: bool,
}

#[derive(Deserialize)]
struct CreatedChannel {
    channel: FoundChannel,
}

impl Inner {
    /// Looks up in the background the channel that a Repo names, unless that is under way: in a large workspace
    /// it takes minutes. Failures are told on the Repo.
    pub(crate) fn name_channel(self: &Arc<Self>, repo: &Arc<Repo>, account: &Arc<SlackAccount>) {
        let slack = &repo.spec.slack;
        let key = (repo.uid().unwrap_or_default(), slack.channel.clone(), slack.create_channel);
        if !self.leading.sweeps() || !self.lookups.begin(&key) {
            return;
        }
        let (inner, repo, account) = (Arc::clone(self), Arc::clone(repo), Arc::clone(account));
        self.background.spawn(async move {
            match inner.find_channel(&repo, &account).await {
                Ok(Some(id)) => inner.keep_channel(&repo, &id).await,
                Ok(None) => {
                    inner.reach.tell(&repo, Err(explain::no_channel(&repo))).await;
                }
                Err(error) => {
                    inner
                        .reach
                        .tell(&repo, Err(explain::explain_condition(&error.into(), &repo)))
                        .await;
                }
            }
            inner.lookups.end(&key);
        });
    }

    async fn find_channel(
        &self,
        repo: &Repo,
        account: &SlackAccount,
    ) -> Result<Option<String>, CallError> {
        let name = repo.spec.slack.channel.trim_start_matches('#');
        if let Some(found) = self.look_for(account, name).await? {
            if !found.is_member && !found.is_private {
                let body = json!({"channel": found.id});
                let joined =
                    self.web.post::<Value>(&account.bot, "conversations.join", &body).await;
                // Without the scope, somebody has to invite the app: reading will say so.
                joined.map(drop).or_else(|error| error.code().map(drop).ok_or(error))?;
            }
            return Ok(Some(found.id));
        }
        if !repo.spec.slack.create_channel {
            return Ok(None);
        }
        let body = json!({"name": name});
        let created =
            self.web.post::<CreatedChannel>(&account.bot, "conversations.create", &body).await;
        match created {
            Ok(created) => Ok(Some(created.channel.id)),
            // Created a moment ago by another replica, or there is one that the app can't see.
            Err(error) if error.code() == Some("name_taken") => {
                Ok(self.look_for(account, name).await?.map(|found| found.id))
            }
            Err(error) => Err(error),
        }
    }

    /// Looks among the channels that the app is in, which are few, and then among all.
    async fn look_for(
        &self,
        account: &SlackAccount,
        name: &str,
    ) -> Result<Option<FoundChannel>, CallError> {
        if let Some(found) = self.look_in("users.conversations", account, name).await? {
            return Ok(Some(FoundChannel { is_member: true, ..found }));
        }
        self.look_in("conversations.list", account, name).await
    }

    async fn look_in(
        &self,
        method: &'static str,
        account: &SlackAccount,
        name: &str,
    ) -> Result<Option<FoundChannel>, CallError> {
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let params = [
                ("types", "public_channel,private_channel"),
                ("exclude_archived", "true"),
                ("limit", PAGE),
                ("cursor", cursor.as_str()),
            ];
            let params = if cursor.is_empty() { &params[..3] } else { &params[..] };
            let page: ChannelsPage = self.web.get(&account.bot, method, params).await?;
            if let Some(found) = page.channels.into_iter().find(|channel| channel.name == name) {
                return Ok(Some(found));
            }
            cursor = page.response_metadata.and_then(|next| next.next_cursor).unwrap_or_default();
            if cursor.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    async fn keep_channel(&self, repo: &Repo, id: &str) {
        let namespace = repo.namespace().unwrap_or_default();
        let api: Api<Repo> = Api::namespaced(self.context.client.clone(), &namespace);
        let named = NamedChannel { name: repo.spec.slack.channel.clone(), id: id.to_owned() };
        let patch = Patch::Merge(json!({"status": {"slack": {"channel": named}}}));
        let params = writes::patch_params();
        if let Err(error) = api.patch_status(&repo.name_any(), &params, &patch).await {
            tracing::warn!(%error, repo = repo.name_any(), "channel_id_write_failed");
        }
    }
}
