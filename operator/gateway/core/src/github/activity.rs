//! Finds who moved a branch, by the host's record of activity.

use http::StatusCode;
use serde::Deserialize;

use super::{GitHub, GitHubError};

/// Entries that are looked through: what is asked about has just happened.
const LOOKED_THROUGH: usize = 30;
/// Commit id that stands for no commit.
const NOTHING: &str = "0000000000000000000000000000000000000000";

#[derive(Deserialize)]
struct ActivityEntry {
    before: String,
    after: String,
    /// Account of the mover; absent once the account is gone.
    actor: Option<ActivityActor>,
}

#[derive(Deserialize)]
struct ActivityActor {
    login: String,
}

impl GitHub {
    /// Returns who moved a branch from one commit to another, or deleted it, as far as the host
    /// says so: the credential may not be allowed to read it, older hosts keep no record, and
    /// several moves have nobody who made them all.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn find_mover(
        &self,
        branch: &str,
        (before, after): (&str, Option<&str>),
    ) -> Result<Option<String>, GitHubError> {
        let name: String = url::form_urlencoded::byte_serialize(branch.as_bytes()).collect();
        let path = self.client.repo("activity");
        let path =
            format!("{path}?ref=refs%2Fheads%2F{name}&time_period=week&per_page={LOOKED_THROUGH}");
        let answer = self.client.get(&path).await?;
        if matches!(answer.status.as_u16(), 403 | 404 | 422) {
            return Ok(None);
        }
        let entries: Vec<ActivityEntry> = self.client.expect(&answer, StatusCode::OK)?;
        Ok(read_mover(entries, (before, after)))
    }
}

fn read_mover(
    entries: Vec<ActivityEntry>,
    (before, after): (&str, Option<&str>),
) -> Option<String> {
    let after = after.unwrap_or(NOTHING);
    let mut entries = entries.into_iter();
    let last = entries.by_ref().find(|entry| entry.after == after)?;
    let login = last.actor?.login;
    let mut at = last.before;
    // Back to where it was, all by the same person.
    while at != before {
        let earlier = entries.next().filter(|entry| entry.after == at)?;
        if earlier.actor?.login != login {
            return None;
        }
        at = earlier.before;
    }
    Some(login)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mover(entries: Value, moved: (&str, Option<&str>)) -> Option<String> {
        read_mover(serde_json::from_value(entries).unwrap(), moved)
    }

    #[test]
    fn who_made_all_moves_is_named_and_otherwise_nobody() {
        let by = |login: &str, before: &str, after: &str| json!({"before": before, "after": after, "actor": {"login": login}});
        let log = json!([by("ana", "c", "d"), by("ben", "b", "c"), by("ben", "a", "b")]);
        let said = |before, after| mover(log.clone(), (before, Some(after)));
        assert_eq!(said("c", "d").as_deref(), Some("ana"));
        assert_eq!(said("a", "c").as_deref(), Some("ben"));
        assert_eq!(said("b", "d"), None, "two of them");
        assert_eq!(said("x", "d"), None, "it goes back further than is known");
        assert_eq!(said("d", "e"), None, "it is not on record yet");
        let gone = json!([by("ana", "d", NOTHING)]);
        assert_eq!(mover(gone, ("d", None)).as_deref(), Some("ana"));
        let nobody = json!([{"before": "a", "after": "b", "actor": null}]);
        assert_eq!(mover(nobody, ("a", Some("b"))), None);
    }
}
