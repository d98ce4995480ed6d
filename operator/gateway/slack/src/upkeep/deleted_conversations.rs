//! Conversations whose Threads were deleted: what was said in them before must not begin them anew when
//! it is delivered or read once more. What is said after begins them anew.

use std::collections::HashMap;

use codebutler_crds::repo::EndedThread;
use codebutler_crds::{Repo, SlackTs};
use codebutler_gateway_core::writes;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use crate::Inner;
use crate::api::channel::RepoChannel;

/// Most ends that a Repo remembers, and that this process does.
const REMEMBERED: usize = 64;
const KNOWN: usize = 4096;
/// Most attempts against other writers of the same status.
const ATTEMPTS: usize = 8;

/// Ends that this process told of: the Repos in its cache may not show them yet.
#[derive(Default)]
pub(crate) struct ToldEnds {
    known: Mutex<HashMap<(String, SlackTs), SlackTs>>,
}

impl ToldEnds {
    fn find(&self, channel: &str, root: &SlackTs) -> Option<SlackTs> {
        let known = self.known.lock();
        known.get(&(channel.to_owned(), root.clone())).cloned()
    }

    fn add(&self, channel: &str, end: &EndedThread) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert((channel.to_owned(), end.root.clone()), end.at.clone());
    }
}

impl Inner {
    /// True if a message was said in a conversation before its Thread was deleted.
    pub(crate) fn has_ended(&self, channel: &RepoChannel, root: &SlackTs, said: &SlackTs) -> bool {
        let told = self.ends.find(&channel.id, root);
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let ends = repo.iter().flat_map(|repo| &repo.status).flat_map(|s| &s.slack.ended);
        let stored = ends.filter(|end| end.root == *root).map(|end| end.at.clone()).max();
        told.max(stored).is_some_and(|at| *said <= at)
    }

    /// Records an end on the Repo, also for later processes.
    ///
    /// # Errors
    /// When the Repo can't be written.
    pub(crate) async fn end(
        &self,
        repo: &Repo,
        channel: &str,
        end: &EndedThread,
    ) -> Result<(), kube::Error> {
        self.ends.add(channel, end);
        let namespace = repo.namespace().unwrap_or_default();
        let api: Api<Repo> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(current) = api.get_opt(&repo.name_any()).await? else { return Ok(()) };
            let known = current.status.as_ref().map(|s| s.slack.ended.clone()).unwrap_or_default();
            let Some(ended) = add_end(known, end) else { return Ok(()) };
            let patch = json!({
                "metadata": {"resourceVersion": current.resource_version()},
                "status": {"slack": {"ended": ended}},
            });
            let params = writes::patch_params();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    last = Some(kube::Error::Api(status));
                }
                Err(error) => return Err(error),
            }
        }
        last.map_or(Ok(()), Err)
    }
}

/// Adds an end to the list; `None` if it is known.
fn add_end(mut known: Vec<EndedThread>, end: &EndedThread) -> Option<Vec<EndedThread>> {
    if known.iter().any(|k| k.root == end.root && k.at >= end.at) {
        return None;
    }
    known.retain(|k| k.root != end.root);
    known.push(end.clone());
    let surplus = known.len().saturating_sub(REMEMBERED);
    known.drain(..surplus);
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_kept_once_each_and_the_newest_of_them() {
        let end = |root: usize, at: usize| EndedThread {
            root: format!("{root}.000000").parse().unwrap(),
            at: format!("{at}.000000").parse().unwrap(),
        };
        let mut known = Vec::new();
        for n in 1..=REMEMBERED + 2 {
            known = add_end(known, &end(n, n + 1)).unwrap();
        }
        assert_eq!((known.len(), &known[0]), (REMEMBERED, &end(3, 4)));
        assert_eq!(add_end(known.clone(), &end(9, 10)), None);
        let again = add_end(known, &end(9, 900)).unwrap();
        assert_eq!((again.len(), again.last()), (REMEMBERED, Some(&end(9, 900))));
    }
}
