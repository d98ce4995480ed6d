//! Record of a conversation until it is clear which Repo it is about: marks on a Repo of its channel, never
//! words. Changing the list is pure; writing it gives way to other writers of the Repo.

use codebutler_crds::unclear::{ChosenRepo, UnclearConversation};
use codebutler_crds::{Repo, SlackTs};
use codebutler_gateway_core::writes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::Patch;
use serde_json::json;

use crate::Inner;
use crate::api::channel::RepoChannel;

/// Most conversations that a Repo keeps.
const KEPT: usize = 32;
/// Most attempts against other writers of the same status.
const ATTEMPTS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotedChoice {
    Kept,
    /// Too many conversations wait already.
    Full,
}

/// Records that somebody said something in a conversation.
pub(super) fn note_message(
    list: &mut Vec<UnclearConversation>,
    root: &SlackTs,
    (said, user): (&SlackTs, &str),
    now: &Time,
) -> NotedChoice {
    if let Some(known) = list.iter_mut().find(|known| known.root == *root) {
        known.heard = known.heard.clone().max(said.clone());
        known.message = known.message.clone().min(said.clone());
        return NotedChoice::Kept;
    }
    if list.len() >= KEPT {
        return NotedChoice::Full;
    }
    list.push(UnclearConversation {
        root: root.clone(),
        message: said.clone(),
        user: user.to_owned(),
        since: now.clone(),
        heard: said.clone(),
        asked: None,
        chosen: None,
    });
    NotedChoice::Kept
}

/// Records what somebody chose below a question; the first choice counts.
pub(super) fn choose_repo(
    list: &mut Vec<UnclearConversation>,
    root: &SlackTs,
    question: &SlackTs,
    chosen: &ChosenRepo,
    now: &Time,
) -> NotedChoice {
    // The Repo that kept it may be gone.
    if !list.iter().any(|known| known.root == *root)
        && note_message(list, root, (root, &chosen.by), now) == NotedChoice::Full
    {
        return NotedChoice::Full;
    }
    for known in list.iter_mut().filter(|known| known.root == *root) {
        known.asked.get_or_insert_with(|| question.clone());
        known.chosen.get_or_insert_with(|| chosen.clone());
    }
    NotedChoice::Kept
}

/// Takes a conversation off the list, unless something was said meanwhile.
pub(super) fn forget_conversation(list: &mut Vec<UnclearConversation>, done: &UnclearConversation) {
    list.retain(|known| known.root != done.root || known.heard > done.heard);
}

impl Inner {
    /// Finds the Repo that keeps a conversation; the oldest of its channel if none does yet.
    pub(super) fn keeper<'a>(
        &self,
        root: &SlackTs,
        sharing: &'a [RepoChannel],
    ) -> Option<&'a RepoChannel> {
        let keeps = |channel: &&RepoChannel| self.kept(root, channel).is_some();
        sharing.iter().find(keeps).or(sharing.iter().find(|channel| !channel.deaf))
    }

    /// The Repo's record of a conversation, as the cache has it.
    pub(super) fn kept(
        &self,
        root: &SlackTs,
        channel: &RepoChannel,
    ) -> Option<UnclearConversation> {
        let repo = self.context.repo(&channel.namespace, &channel.repo)?;
        let unclear = &repo.status.as_ref()?.slack.unclear;
        unclear.iter().find(|known| known.root == *root).cloned()
    }

    /// Changes what a Repo keeps. `None` if the Repo is gone.
    pub(super) async fn keep<T>(
        &self,
        (namespace, name): (&str, &str),
        change: impl Fn(&mut Vec<UnclearConversation>) -> T,
    ) -> Result<Option<T>, kube::Error> {
        let api: Api<Repo> = Api::namespaced(self.context.client.clone(), namespace);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(current) = api.get_opt(name).await? else { return Ok(None) };
            let status = current.status.as_ref();
            let before = status.map(|status| status.slack.unclear.clone()).unwrap_or_default();
            let mut after = before.clone();
            let told = change(&mut after);
            if after == before {
                return Ok(Some(told));
            }
            let patch = json!({
                "metadata": {"resourceVersion": current.metadata.resource_version},
                "status": {"slack": {"unclear": after}},
            });
            match api.patch_status(name, &writes::patch_params(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(Some(told)),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    last = Some(kube::Error::Api(status));
                }
                Err(error) => return Err(error),
            }
        }
        last.map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> SlackTs {
        format!("{text}.000000").parse().unwrap()
    }

    #[test]
    fn a_conversation_is_kept_once_and_until_nothing_new_was_said() {
        let (mut list, now) = (Vec::new(), Time(jiff::Timestamp::UNIX_EPOCH));
        for (said, user) in [("15", "U1"), ("10", "U2"), ("12", "U3"), ("15", "U1")] {
            assert_eq!(
                note_message(&mut list, &ts("10"), (&ts(said), user), &now),
                NotedChoice::Kept
            );
        }
        let kept = list[0].clone();
        assert_eq!((list.len(), &kept.message, &kept.heard), (1, &ts("10"), &ts("15")));

        let chosen = |by: &str| ChosenRepo { uid: "u".to_owned(), by: by.to_owned() };
        choose_repo(&mut list, &ts("10"), &ts("11"), &chosen("U1"), &now);
        choose_repo(&mut list, &ts("10"), &ts("11"), &chosen("U2"), &now);
        assert_eq!(
            (list[0].chosen.clone(), list[0].asked.clone()),
            (Some(chosen("U1")), Some(ts("11")))
        );

        note_message(&mut list, &ts("10"), (&ts("16"), "U1"), &now);
        forget_conversation(&mut list, &kept);
        assert_eq!(list.len(), 1, "a reply came meanwhile");
        let newest = list[0].clone();
        forget_conversation(&mut list, &newest);
        assert!(list.is_empty());

        for n in 0..KEPT {
            note_message(&mut list, &ts(&n.to_string()), (&ts("50"), "U1"), &now);
        }
        assert_eq!(note_message(&mut list, &ts("99"), (&ts("99"), "U1"), &now), NotedChoice::Full);
        assert_eq!(
            choose_repo(&mut list, &ts("99"), &ts("99"), &chosen("U1"), &now),
            NotedChoice::Full
        );
    }
}
