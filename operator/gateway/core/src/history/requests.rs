//! First requests of conversations, read from the histories: also of those that ended without a
//! merge.

use std::io;
use std::sync::Arc;

use codebutler_crds::wire::history::{HistoryEvent, HistoryLine};
use codebutler_crds::wire::{MessageAuthor, PastConversation};
use codebutler_history::{AnyStore, HistoryStore as _, StoredHistory, ThreadPlace};
use codebutler_runtime::recent::RecentMap;
use parking_lot::{Mutex, MutexGuard};

use crate::thread_key::ThreadKey;

/// Conversations that are looked at: those with the newest changes.
const MOST: usize = 200;
/// The first bytes of a history, in which a person's first words are.
const HEAD: u64 = 64 * 1024;
/// Longest request, in characters.
const LONGEST: usize = 500;

/// Conversations whose beginnings are kept.
const BEGINNINGS: usize = 1024;

/// First requests of conversations, which never change. Cheap to clone.
#[derive(Clone)]
pub(super) struct RequestMemory(Arc<Mutex<RecentMap<ThreadPlace, FirstRequest>>>);

impl Default for RequestMemory {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(RecentMap::new(BEGINNINGS))))
    }
}

impl RequestMemory {
    /// Locks the cache of requests.
    pub(super) fn lock(&self) -> MutexGuard<'_, RecentMap<ThreadPlace, FirstRequest>> {
        self.0.lock()
    }
}

/// The beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstRequest {
    repo: String,
    asked: String,
}

/// First requests of other conversations of a Repo, the newest first.
pub(super) fn list_requests(
    store: &AnyStore,
    memory: &RequestMemory,
    own: &ThreadKey,
    repo: &str,
) -> io::Result<Vec<PastConversation>> {
    let is_other = |kept: &StoredHistory| {
        kept.place.namespace() == own.namespace && kept.place.name() != own.name
    };
    let mut kept: Vec<_> = store.list()?.into_iter().filter(is_other).collect();
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.changed));
    let mut found = Vec::new();
    for kept in kept {
        if found.len() >= MOST {
            break;
        }
        let Some(first) = read_first(store, memory, &kept.place)? else { continue };
        if first.repo == repo {
            let thread = kept.place.name().to_owned();
            found.push(PastConversation { thread, asked: first.asked });
        }
    }
    Ok(found)
}

fn read_first(
    store: &AnyStore,
    memory: &RequestMemory,
    place: &ThreadPlace,
) -> io::Result<Option<FirstRequest>> {
    if let Some(known) = memory.lock().get(place) {
        return Ok(Some(known.clone()));
    }
    let first = parse_first(&store.read(place, 0, HEAD)?);
    if let Some(first) = &first {
        memory.lock().insert(place.clone(), first.clone());
    }
    Ok(first)
}

/// The first words of a person in the beginning of a history, and its Repo: either may be written first.
fn parse_first(head: &[u8]) -> Option<FirstRequest> {
    let lines = head.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice::<HistoryLine>(line).ok());
    let (mut opened, mut asked) = (None, None);
    for line in lines {
        match line.event {
            HistoryEvent::Opened { repo, .. } => opened = Some(repo),
            HistoryEvent::Message {
                author: MessageAuthor::User { .. } | MessageAuthor::Prompt { .. },
                text,
                ..
            } if asked.is_none() => {
                let words: Vec<&str> = text.split_whitespace().collect();
                asked = Some(words.join(" ").chars().take(LONGEST).collect());
            }
            _ => {}
        }
        if let (Some(repo), Some(asked)) = (&opened, &asked) {
            let (repo, asked) = (String::clone(repo), String::clone(asked));
            return Some(FirstRequest { repo, asked });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use codebutler_history::HistoryVolume;
    use serde_json::{Value, json};

    use super::*;

    fn history(repo: &str, said: &[(Value, &str)]) -> String {
        let opened = json!({"event": "opened", "repo": repo, "channel": "C1"});
        let messages = said.iter().map(|(author, text)| {
            json!({"event": "message", "ts": "1.000001", "author": author, "text": text})
        });
        let line = |event: Value| {
            let mut line = json!({"v": 1, "at": 1, "source": "gateway"});
            line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
            line.to_string() + "\n"
        };
        std::iter::once(opened).chain(messages).map(line).collect()
    }

    #[test]
    fn each_conversation_of_the_repo_counts_with_what_a_person_said_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut volume = HistoryVolume::new(dir.path());
        let (ana, pm) =
            (json!({"kind": "user", "id": "U1"}), json!({"kind": "role", "role": "pm"}));
        for (namespace, name, text) in [
            (
                "team",
                "shop-1",
                history("shop", &[(pm, "Hello."), (ana.clone(), "bump\n the deps")]),
            ),
            ("team", "cart-1", history("cart", &[(ana.clone(), "of another Repo")])),
            ("other", "shop-3", history("shop", &[(ana.clone(), "of another namespace")])),
            ("team", "shop-4", history("shop", &[(ana, "my own")])),
            ("team", "shop-5", history("shop", &[])),
        ] {
            let place = ThreadPlace::new(namespace, name).unwrap();
            assert!(volume.append(&place, 0, text.as_bytes()).unwrap());
        }
        let (store, memory) = (AnyStore::Volume(volume), RequestMemory::default());
        let own = ThreadKey { namespace: "team".into(), name: "shop-4".into() };
        let expected =
            vec![PastConversation { thread: "shop-1".into(), asked: "bump the deps".into() }];
        for _ in 0..2 {
            assert_eq!(list_requests(&store, &memory, &own, "shop").unwrap(), expected);
        }
    }

    #[test]
    fn the_repo_may_be_written_after_what_was_said() {
        let said = history("shop", &[(json!({"kind": "user", "id": "U1"}), "bump the deps")]);
        let turned: Vec<&str> = said.lines().rev().collect();
        let first = parse_first(turned.join("\n").as_bytes()).unwrap();
        assert_eq!((&*first.repo, &*first.asked), ("shop", "bump the deps"));
    }
}
