//! Looks up who is in the user groups that Repos name among their people: at once where a group is new, and every
//! minute. Whoever leaves a group is soon out; a hiccup of Slack puts nobody out for an hour.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_gateway_core::groups::{GroupMembers, MOST_MEMBERS, named_groups};
use codebutler_gateway_core::repo_key::RepoKey;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::explain;
use crate::api::web::CallError;

/// Time for which an answer counts.
const FRESH: Duration = Duration::from_mins(1);
/// Time for which an answer counts while Slack gives no other.
const LONGEST: Duration = Duration::from_hours(1);
/// Longest wait for the groups of one Repo.
const PATIENCE: Duration = Duration::from_secs(10);

/// User groups that were looked up: time and answer of each lookup.
#[derive(Default)]
pub(crate) struct GroupLookups {
    asked: Mutex<HashMap<(RepoKey, String), GroupLookup>>,
}

#[derive(Clone)]
struct GroupLookup {
    asked: Instant,
    /// Time at which the members were last known.
    known: Option<Instant>,
    /// Slack's error code, where it does not tell the members.
    refused: Option<String>,
}

#[derive(Deserialize)]
struct GroupUsers {
    #[serde(default)]
    users: Vec<String>,
}

impl GroupLookups {
    fn of(&self, repo: &RepoKey, group: &str) -> Option<GroupLookup> {
        self.asked.lock().get(&(repo.clone(), group.to_owned())).cloned()
    }

    /// Sentences for people about groups that can't be looked up.
    pub(crate) fn told(&self, repo: &Repo) -> Vec<String> {
        let key = RepoKey::from(repo);
        let refused = |group: &String| Some((group.clone(), self.of(&key, group)?.refused?));
        let refused: Vec<(String, String)> = named_groups(repo).filter_map(refused).collect();
        if refused.iter().any(|(_, code)| code == "missing_scope") {
            return vec![explain::NO_GROUPS.to_owned()];
        }
        refused.iter().map(|(group, code)| explain::no_group(group, code)).collect()
    }
}

impl Inner {
    /// Looks up the groups of a Repo that are due.
    pub(crate) async fn learn_groups(&self, repo: &Repo, account: &SlackAccount) {
        let looks = self.learn_due_groups(repo, account);
        if tokio::time::timeout(PATIENCE, looks).await.is_err() {
            tracing::warn!("group_lookup_timed_out");
        }
    }

    async fn learn_due_groups(&self, repo: &Repo, account: &SlackAccount) {
        let key = RepoKey::from(repo);
        let is_due = |group: &&String| {
            self.groups.of(&key, group).is_none_or(|lookup| lookup.asked.elapsed() >= FRESH)
        };
        let due: Vec<String> = named_groups(repo).filter(is_due).cloned().collect();
        if due.is_empty() {
            return;
        }
        let before = self.groups.told(repo);
        let mut members: GroupMembers = self.context.groups.of(&key);
        for group in due {
            self.learn_group(&key, &group, account, &mut members).await;
        }
        self.context.groups.learn(key, members);
        let now = self.groups.told(repo);
        if now != before {
            for why in &now {
                tracing::warn!(why, "group_members_unknown");
            }
            if self.leading.sweeps() {
                self.reach.tell(repo, self.standing(account, repo)).await;
            }
        }
    }

    async fn learn_group(
        &self,
        repo: &RepoKey,
        group: &str,
        account: &SlackAccount,
        members: &mut GroupMembers,
    ) {
        let asked = Instant::now();
        let before = self.groups.of(repo, group).and_then(|lookup| lookup.known);
        let lookup = match self.read_group(account, group).await {
            Ok(mut users) => {
                if users.len() > MOST_MEMBERS {
                    tracing::warn!(group, limit = MOST_MEMBERS, "group_members_truncated");
                    users.truncate(MOST_MEMBERS);
                }
                members.insert(group.to_owned(), users);
                GroupLookup { asked, known: Some(asked), refused: None }
            }
            Err(error) => {
                let refused = error.code().map(str::to_owned);
                let is_over = before.is_none_or(|known| known.elapsed() >= LONGEST);
                if refused.is_some() || is_over {
                    members.remove(group);
                }
                GroupLookup { asked, known: before.filter(|_| refused.is_none()), refused }
            }
        };
        self.groups.asked.lock().insert((repo.clone(), group.to_owned()), lookup);
    }

    async fn read_group(
        &self,
        account: &SlackAccount,
        group: &str,
    ) -> Result<Vec<String>, CallError> {
        let mut params = vec![("usergroup", group)];
        // An organisation's token has to say of which workspace.
        if let Some(team) = account.team.as_deref().filter(|_| account.enterprise.is_some()) {
            params.push(("team_id", team));
        }
        let found: GroupUsers =
            self.web.get(&account.bot, "usergroups.users.list", &params).await?;
        Ok(found.users)
    }
}
