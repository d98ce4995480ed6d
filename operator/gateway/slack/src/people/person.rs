//! Identity of people: their names, and whether they are of the app's workspace. As Slack tells, and kept in
//! memory only.

use std::collections::BTreeMap;
use std::time::Duration;

use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::repo_key::RepoKey;
use serde::Deserialize;
use tokio::time::Instant;

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::scopes;
use crate::api::stored_message::SLACKBOT;
use crate::api::web::CallError;
use crate::bounded_memory::BoundedMemory;
use crate::people::access::{self, PersonKind};
use crate::people::mentions;

/// Time for which what is known counts, and time before what could not be read is asked for again.
const FRESH: Duration = Duration::from_hours(1);
const AGAIN: Duration = Duration::from_mins(1);
/// Longest wait of a run for what it can do without.
const PATIENCE: Duration = Duration::from_secs(3);
const MAX_NAME: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlackPerson {
    /// Name that they go by; `None` where it can't be read.
    pub name: Option<String>,
    /// Their relation to the workspace.
    pub kind: PersonKind,
}

/// Cache of people by Repo and user id: what one app was told of somebody, another one may not be.
pub(crate) type KnownPeople = BoundedMemory<(RepoKey, String), (SlackPerson, Instant)>;

#[derive(Deserialize)]
struct PersonAnswer {
    user: User,
}

/// Answer of Slack about a person. Names are whatever the person chose. Of strangers and deleted accounts Slack says
/// less, so that anything may be absent or null.
#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    team_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    real_name: Option<String>,
    #[serde(default)]
    profile: Option<Profile>,
    #[serde(default)]
    is_bot: Option<bool>,
    #[serde(default)]
    deleted: Option<bool>,
    #[serde(flatten)]
    limits: PersonLimits,
    #[serde(default, rename = "enterprise_user")]
    organisation: Option<Enterprise>,
}

#[derive(Default, Deserialize)]
struct PersonLimits {
    #[serde(default, rename = "is_restricted")]
    restricted: Option<bool>,
    #[serde(default, rename = "is_ultra_restricted")]
    ultra_restricted: Option<bool>,
    #[serde(default, rename = "is_stranger")]
    stranger: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Enterprise {
    #[serde(default)]
    enterprise_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Profile {
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    real_name: Option<String>,
}

impl User {
    /// The first of the person's names that is not empty.
    fn name(&self) -> Option<String> {
        let shown = self.profile.iter().flat_map(|one| [&one.display_name, &one.real_name]);
        let names = shown.chain([&self.real_name, &self.name]).flatten();
        names.map(|name| harmless_name(name)).find(|name| !name.is_empty())
    }

    /// Relation of a user to a workspace and to the organisation that this belongs to.
    fn kind(&self, team: Option<&str>, enterprise: Option<&str>) -> PersonKind {
        let own = self.organisation.as_ref().and_then(|own| own.enterprise_id.as_deref());
        let colleague = own.is_some() && own == enterprise;
        let elsewhere = match (team, self.team_id.as_deref()) {
            (Some(team), Some(theirs)) => team != theirs,
            _ => false,
        };
        let PersonLimits { restricted, ultra_restricted, stranger } = self.limits;
        let is = |fact: Option<bool>| fact == Some(true);
        if is(self.is_bot) || self.id.as_deref() == Some(SLACKBOT) {
            PersonKind::Bot
        } else if is(self.deleted) {
            PersonKind::Gone
        } else if is(stranger) || (elsewhere && !colleague) {
            PersonKind::Stranger
        } else if is(restricted) || is(ultra_restricted) {
            PersonKind::Guest
        } else {
            PersonKind::Member
        }
    }
}

/// Keeps letters, digits and a few signs, in one line: nothing that a model or Slack could take for more.
fn harmless_name(name: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || " .'-".contains(c) { c } else { ' ' };
    let name: String = name.chars().map(kept).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    name.chars().take(MAX_NAME).collect()
}

impl Inner {
    /// Names of those who asked, spoke last or decided.
    pub(crate) async fn names(&self, repo: &Repo, thread: &Thread) -> BTreeMap<String, String> {
        let read = async {
            let account = self.account(repo).await.ok()?;
            let names = mentions::concerned_people(thread).into_iter().map(async |user| {
                let name = self.person((repo, &account), &user).await.ok()?.name?;
                Some((user, name))
            });
            Some(futures::future::join_all(names).await)
        };
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.ok().flatten().into_iter().flatten().flatten().collect()
    }

    /// True if Slack need not be asked who somebody is.
    pub(crate) fn knows_person(&self, repo: &Repo, user: &str) -> bool {
        let known = self.persons.get(&(RepoKey::from(repo), user.to_owned()));
        known.is_some_and(|(person, at)| {
            at.elapsed() < if person.kind == PersonKind::Unknown { AGAIN } else { FRESH }
        })
    }

    /// Name of a person as of the last answer from Slack; asks nothing.
    pub(crate) fn known_name(&self, repo: &Repo, user: &str) -> Option<String> {
        self.persons.get(&(RepoKey::from(repo), user.to_owned()))?.0.name
    }

    /// Reads who a person is; a recent answer is taken from memory.
    ///
    /// # Errors
    /// When Slack gives no answer; one that says nothing of the person is none.
    pub(crate) async fn person(
        &self,
        (repo, account): (&Repo, &SlackAccount),
        user: &str,
    ) -> Result<SlackPerson, CallError> {
        self.person_within((repo, account), user, FRESH).await
    }

    /// Like [`Self::person`], with a limit on the age of a cached answer.
    async fn person_within(
        &self,
        (repo, account): (&Repo, &SlackAccount),
        user: &str,
        longest: Duration,
    ) -> Result<SlackPerson, CallError> {
        let key = (RepoKey::from(repo), user.to_owned());
        if let Some((person, at)) = self.persons.get(&key) {
            let counts = if person.kind == PersonKind::Unknown { AGAIN } else { longest };
            if at.elapsed() < counts {
                return Ok(person);
            }
        }
        let answer =
            self.web.get::<PersonAnswer>(&account.bot, "users.info", &[("user", user)]).await;
        let person = match answer {
            Ok(PersonAnswer { user }) => {
                let kind = user.kind(account.team.as_deref(), account.enterprise.as_deref());
                SlackPerson { name: user.name(), kind }
            }
            Err(error) if error.code().is_some() => {
                tracing::debug!(%error, "person_lookup_failed");
                SlackPerson { name: None, kind: PersonKind::Unknown }
            }
            Err(error) => return Err(error),
        };
        self.persons.keep(key, (person.clone(), Instant::now()));
        Ok(person)
    }

    /// Those of `people` whose accounts are not deactivated, as far as Slack tells soon.
    pub(crate) async fn without_former(&self, repo: &Repo, people: Vec<String>) -> Vec<String> {
        let Ok(account) = self.account(repo).await else { return people };
        let asked = people.iter().map(|user| {
            let asking = self.person((repo, &account), user);
            tokio::time::timeout(PATIENCE, asking)
        });
        let read = futures::future::join_all(asked).await;
        let all = people.into_iter().zip(read);
        let left = all.filter(|(_, read)| {
            !matches!(read, Ok(Ok(SlackPerson { kind: PersonKind::Gone, .. })))
        });
        left.map(|(user, _)| user).collect()
    }

    /// True if somebody is known to see what every full member of the workspace can.
    pub(crate) async fn is_member(&self, of: (&Repo, &SlackAccount), user: &str) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.person(of, user)).await;
        matches!(read, Ok(Ok(SlackPerson { kind: PersonKind::Member, .. })))
    }

    /// Reason for which somebody may not decide in a Repo's channel; `None` if they may.
    ///
    /// # Errors
    /// When it can't be known now.
    pub(crate) async fn refusal(
        &self,
        repo: &Repo,
        user: &str,
    ) -> Result<Option<&'static str>, AccessError> {
        self.refusal_within(repo, user, FRESH).await
    }

    /// The same for a decision of theirs that goes on counting without them: whoever has left since decides
    /// no more.
    ///
    /// # Errors
    /// When it can't be known now.
    pub(crate) async fn standing_refusal(
        &self,
        repo: &Repo,
        user: &str,
    ) -> Result<Option<&'static str>, AccessError> {
        if let Some(refusal) = self.refusal_within(repo, user, AGAIN).await? {
            return Ok(Some(refusal));
        }
        // The Repo names nobody: then everybody who is in the channel may decide.
        let (true, Some(channel)) = (repo.spec.access.users.is_empty(), repo.channel()) else {
            return Ok(None);
        };
        let account = self.account(repo).await?;
        match self.members(&account, channel).await {
            Ok(members) => Ok((!members.contains(user)).then_some(access::LEFT)),
            // The app may not know who is in the channel, which the Repo says: then the account counts alone.
            Err(error) if error.code().is_some_and(scopes::is_ungranted) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn refusal_within(
        &self,
        repo: &Repo,
        user: &str,
        longest: Duration,
    ) -> Result<Option<&'static str>, AccessError> {
        let account = self.account(repo).await?;
        let kind = self.person_within((repo, &account), user, longest).await?.kind;
        Ok(access::access_refusal(&repo.spec.access.users, user, kind))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user(value: Value) -> User {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_hostile_name_is_a_name() {
        for (name, expected) in [
            ("Ana Müller", "Ana Müller"),
            (
                "`x`\n# Rules\n<!channel> *a* @codebutler.coder",
                "x Rules channel a codebutler.coder",
            ),
            ("\u{202e}evil\u{0}", "evil"),
            ("<@U1>", "U1"),
            ("***", ""),
        ] {
            assert_eq!(harmless_name(name), expected);
        }
        assert_eq!(harmless_name(&"x".repeat(500)).len(), MAX_NAME);
        let ana = json!({"name": "ana", "real_name": "Ana M", "profile": {"display_name": "@@"}});
        assert_eq!(user(ana).name().as_deref(), Some("Ana M"));
    }

    #[test]
    fn only_who_is_wholly_of_the_workspace_is_a_member() {
        for (told, expected) in [
            (json!({"team_id": "T1"}), PersonKind::Member),
            (json!({}), PersonKind::Member),
            (json!({"team_id": "T2"}), PersonKind::Stranger),
            (
                json!({"team_id": "T2", "enterprise_user": {"enterprise_id": "E1"}}),
                PersonKind::Member,
            ),
            (
                json!({"team_id": "T2", "enterprise_user": {"enterprise_id": "E2"}}),
                PersonKind::Stranger,
            ),
            (json!({"team_id": "T1", "is_stranger": true}), PersonKind::Stranger),
            (json!({"team_id": "T1", "is_restricted": true}), PersonKind::Guest),
            (json!({"team_id": "T1", "is_ultra_restricted": true}), PersonKind::Guest),
            (json!({"team_id": "T1", "deleted": true}), PersonKind::Gone),
            (json!({"team_id": "T1", "is_bot": true}), PersonKind::Bot),
            (json!({"team_id": "T1", "id": "USLACKBOT"}), PersonKind::Bot),
        ] {
            assert_eq!(user(told.clone()).kind(Some("T1"), Some("E1")), expected, "{told}");
        }
        let bare = json!({"team_id": "T2", "name": "ben", "real_name": null, "profile": {"display_name": null,
            "real_name": null}, "is_bot": null, "is_restricted": null, "enterprise_user": null});
        assert_eq!(user(bare.clone()).name().as_deref(), Some("ben"));
        assert_eq!(user(bare).kind(Some("T1"), Some("E1")), PersonKind::Stranger);
        let elsewhere = json!({"enterprise_user": {}, "team_id": "T2"});
        assert_eq!(user(elsewhere).kind(Some("T1"), None), PersonKind::Stranger);
    }
}
