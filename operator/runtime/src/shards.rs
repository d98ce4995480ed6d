//! Shards of the gateways' work: one replica leads for each, and each Repo belongs to exactly one. Pure.
//!
//! A Repo's shard follows from its name and from how many shards there are (rendezvous hashing): where that number
//! changes, only those Repos move that have to. The number in force is on the first shard's Lease. Whoever changes it
//! holds the Leases of all shards, before and after, so that nobody acts by another number meanwhile.

use std::collections::BTreeMap;

use codebutler_crds::names::{self, ANNOTATION_SHARDS};
use codebutler_crds::{Repo, Thread};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;

/// Largest number of shards.
pub const MOST_SHARDS: u32 = 16;

/// One of a number of shards. The default is the only one of an installation that has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayShard {
    index: u32,
    of: u32,
}

impl Default for GatewayShard {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl GatewayShard {
    pub const fn new(index: u32, of: u32) -> Self {
        Self { index, of }
    }

    /// The shard of a Repo, where there are `of`.
    pub fn of_repo(namespace: &str, repo: &str, of: u32) -> Self {
        let key = hash_name(namespace, repo);
        // The last of equals, which does not matter as long as everybody agrees.
        let index = (0..of).max_by_key(|shard| mix_bits(key ^ mix_bits(u64::from(*shard) + 1)));
        Self { index: index.unwrap_or_default(), of }
    }

    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns true for the first shard, whose leader also does what is done once for all Repos.
    pub const fn is_first(self) -> bool {
        self.index == 0
    }

    /// Returns true if a Repo of this name belongs to the shard.
    pub fn has(self, namespace: &str, repo: &str) -> bool {
        self.of <= 1 || Self::of_repo(namespace, repo, self.of) == self
    }

    pub fn has_repo(self, repo: &Repo) -> bool {
        self.of <= 1 || self.has(&repo.namespace().unwrap_or_default(), &repo.name_any())
    }

    /// Returns true if a Thread's Repo belongs to the shard. The Repo need not exist.
    pub fn has_thread(self, thread: &Thread) -> bool {
        self.of <= 1 || self.has(&thread.namespace().unwrap_or_default(), &thread.spec.repo)
    }
}

/// The Lease of a shard's leader.
pub fn lease_name(shard: u32) -> String {
    name_object(names::GATEWAY, shard)
}

/// The name of an object that each shard has one of. The first one's is what it is where there are no others.
pub fn name_object(base: &str, shard: u32) -> String {
    if shard == 0 { base.to_owned() } else { format!("{base}-{shard}") }
}

/// The port of the gateway's Service that leads to a shard's leader: its name, and its distance from the first one's.
pub fn port_of(shard: u32) -> (String, u16) {
    (name_object("agents", shard), u16::try_from(shard).unwrap_or(u16::MAX))
}

/// Reads how many shards are in force from the first shard's Lease.
pub fn count_shards(lease: &Lease) -> u32 {
    let said = lease.annotations().get(ANNOTATION_SHARDS);
    said.and_then(|said| said.parse().ok()).unwrap_or(1).clamp(1, MOST_SHARDS)
}

/// Writes a number of shards into the annotations of the first shard's Lease. One is the default, and not written.
pub fn note_shards(annotations: &mut BTreeMap<String, String>, shards: u32) {
    if shards > 1 {
        annotations.insert(ANNOTATION_SHARDS.to_owned(), shards.to_string());
    } else {
        annotations.remove(ANNOTATION_SHARDS);
    }
}

/// FNV-1a. Processes of several versions have to agree on it, which the standard library's hash does not promise.
fn hash_name(namespace: &str, name: &str) -> u64 {
    let bytes = namespace.bytes().chain([b'/']).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The last steps of `SplitMix64`: each bit of the input changes about half of the output's.
const fn mix_bits(input: u64) -> u64 {
    let first = (input ^ (input >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ (second >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPOS: u32 = 3000;

    fn shard(repo: u32, of: u32) -> u32 {
        GatewayShard::of_repo(&format!("team-{}", repo % 7), &format!("shop-{repo}"), of).index()
    }

    #[test]
    fn each_shard_has_about_its_share_of_the_repos() {
        for of in 1..=MOST_SHARDS {
            let mut counts = vec![0_u32; of as usize];
            for repo in 0..REPOS {
                counts[shard(repo, of) as usize] += 1;
            }
            let share = REPOS / of;
            for count in counts {
                assert!(count.abs_diff(share) < share / 5 + 20, "{count} of {share}, {of} shards");
            }
        }
    }

    #[test]
    fn one_more_shard_moves_repos_to_that_one_alone() {
        for of in 1..MOST_SHARDS {
            let mut moved = 0;
            for repo in 0..REPOS {
                let (before, after) = (shard(repo, of), shard(repo, of + 1));
                if before != after {
                    assert_eq!(after, of, "a Repo moves only to the new shard");
                    moved += 1;
                }
            }
            let share = REPOS / (of + 1);
            assert!(moved > share / 2 && moved < share * 3 / 2 + 20, "{moved} of {share}");
        }
    }

    #[test]
    fn a_repo_has_exactly_one_shard() {
        for of in 1..=MOST_SHARDS {
            for repo in 0..100 {
                let name = format!("shop-{repo}");
                let has = |index: &u32| GatewayShard::new(*index, of).has("team", &name);
                assert_eq!((0..of).filter(has).count(), 1, "{name} of {of}");
            }
        }
        assert!(GatewayShard::default().has("team", "shop"));
    }

    /// Gateways of two versions act at the same time while an installation is upgraded.
    #[test]
    fn a_repo_has_the_same_shard_in_every_version() {
        let shards = ["shop", "web", "docs", "billing", "infra", "mobile", "search", "data"];
        let shards = shards.map(|repo| GatewayShard::of_repo("team", repo, 3).index());
        assert_eq!(shards, [0, 1, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn the_number_in_force_is_read_whatever_people_wrote() {
        let lease = |said: Option<&str>| {
            let mut lease = Lease::default();
            lease.metadata.annotations =
                said.map(|said| BTreeMap::from([(ANNOTATION_SHARDS.to_owned(), said.to_owned())]));
            count_shards(&lease)
        };
        assert_eq!([lease(None), lease(Some("")), lease(Some("three"))], [1; 3]);
        assert_eq!([lease(Some("3")), lease(Some("0")), lease(Some("99"))], [3, 1, MOST_SHARDS]);
        let mut annotations = BTreeMap::new();
        note_shards(&mut annotations, 3);
        assert_eq!(annotations.get(ANNOTATION_SHARDS).map(String::as_str), Some("3"));
        note_shards(&mut annotations, 1);
        assert!(annotations.is_empty(), "one shard leaves no trace");
    }

    #[test]
    fn the_first_shard_is_called_as_without_others() {
        assert_eq!([lease_name(0), lease_name(2)], ["codebutler-gateway", "codebutler-gateway-2"]);
        assert_eq!([port_of(0), port_of(2)], [("agents".into(), 0), ("agents-2".into(), 2)]);
    }
}
