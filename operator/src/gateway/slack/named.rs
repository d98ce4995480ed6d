//! Channels that a Repo names instead of giving their id: looked up, joined, and created where the Repo
//! says so. The id is kept in the Repo's status, so a channel can be renamed afterwards.

use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::repo::NamedChannel;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::account::Account;
use super::web::CallError;
use super::{Inner, explain};

/// A name that was not found is not looked for again before.
const AGAIN: Duration = Duration::from_secs(10);
/// Pages at most: a guard against an endless cursor.
const PAGES: usize = 100;

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    channels: Vec<Found>,
    #[serde(default)]
    response_metadata: Option<Next>,
}

#[derive(Deserialize)]
struct Next {
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Found {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    is_private: bool,
    #[serde(default)]
    is_member: bool,
}

#[derive(Deserialize)]
struct Created {
    channel: Found,
}

impl Inner {
    /// Finds out which channel a Repo names, if nobody has yet. What is wrong is told on the Repo.
    pub async fn name_channel(&self, repo: &Repo, account: &Account) {
        let key = (repo.uid().unwrap_or_default(), repo.spec.slack.channel.clone());
        let now = Instant::now();
        {
            let mut tried = self.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            tried.retain(|_, at| now.duration_since(*at) < AGAIN);
            if tried.contains_key(&key) {
                return;
            }
            tried.insert(key, now);
        }
        match self.find_channel(repo, account).await {
            Ok(Some(id)) => self.keep_channel(repo, &id).await,
            Ok(None) => self.reach.tell(repo, Err(explain::no_channel(repo))).await,
            Err(error) => {
                self.reach.tell(repo, Err(explain::condition(&error.into(), repo))).await;
            }
        }
    }

    async fn find_channel(
        &self,
        repo: &Repo,
        account: &Account,
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
        let created = self.web.post::<Created>(&account.bot, "conversations.create", &body).await;
        match created {
            Ok(created) => Ok(Some(created.channel.id)),
            // Created a moment ago by another replica, or there is one that the app can't see.
            Err(error) if error.code() == Some("name_taken") => {
                Ok(self.look_for(account, name).await?.map(|found| found.id))
            }
            Err(error) => Err(error),
        }
    }

    async fn look_for(&self, account: &Account, name: &str) -> Result<Option<Found>, CallError> {
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let params = [
                ("types", "public_channel,private_channel"),
                ("exclude_archived", "true"),
                ("limit", "200"),
                ("cursor", cursor.as_str()),
            ];
            let params = if cursor.is_empty() { &params[..3] } else { &params[..] };
            let page: Page = self.web.get(&account.bot, "conversations.list", params).await?;
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
        let params = PatchParams::default();
        if let Err(error) = api.patch_status(&repo.name_any(), &params, &patch).await {
            tracing::warn!(%error, repo = repo.name_any(), "the channel's id is not written");
        }
    }
}
