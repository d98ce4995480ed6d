use std::time::Instant;

use super::*;
use crate::testing::TestRepository;

#[test]
fn a_packs_head_is_read_before_anything_is_made_of_it() {
    assert_eq!(objects_of(b"PACK\0\0\0\x02\0\0\0\x03rest").unwrap(), 3);
    let many = objects_of(b"PACK\0\0\0\x02\xff\0\0\0").unwrap_err();
    assert!(many.to_string().contains("500000 objects"));
    assert!(objects_of(b"PICK\0\0\0\x02\0\0\0\x03").is_err());
    assert!(objects_of(b"").is_err());
}

#[test]
fn gits_complaints_become_sentences() {
    let said = "error: object 84: hasDotgit: contains '.git'\nfatal: fsck error in packed object";
    assert_eq!(
        unpack_trouble(said, 1),
        "Git does not accept the pack: object 84: hasDotgit: contains '.git'"
    );
    let said = "fatal: pack exceeds maximum allowed size (100 bytes)";
    assert_eq!(unpack_trouble(said, 2 << 20), "a push may have 2 MiB");
}

/// A pack of few objects in which every other commit is one of two trees of so many files.
struct Alternating {
    shop: TestRepository,
    base: String,
    tip: String,
}

impl Alternating {
    fn make(folders: usize, files: usize, commits: usize) -> Self {
        let shop = TestRepository::new();
        let base = shop.commit(&[], &[("README.md", "# shop\n")]);
        shop.run(&["update-ref", "refs/heads/main", &base], "");
        let trees = ["one\n", "other\n"].map(|text| {
            let blob = shop.run(&["hash-object", "-w", "--stdin"], text);
            let list = |count: usize, entry: &str| {
                (0..count).map(|n| format!("{entry}\tf{n}\n")).collect::<Vec<_>>().concat()
            };
            let inner = shop.run(&["mktree"], &list(files, &format!("100644 blob {blob}")));
            shop.run(&["mktree"], &list(folders, &format!("040000 tree {inner}")))
        });
        let mut tip = base.clone();
        for n in 0..commits {
            tip = shop.run(&["commit-tree", &trees[n % 2], "-p", &tip, "-m", "Change"], "");
        }
        Self { shop, base, tip }
    }

    async fn push(&self) -> Result<IncomingPush, ReceiveError> {
        push(&self.shop, &self.base, &self.tip).await
    }
}

/// Inspects a push of a new branch.
async fn push(shop: &TestRepository, base: &str, tip: &str) -> Result<IncomingPush, ReceiveError> {
    let quarantine = PushQuarantine::new(&shop.git(), &PolicySpec::default()).unwrap();
    let name = "refs/heads/codebutler/t".to_owned();
    let update = RefUpdate { name, old: None, new: tip.to_owned() };
    let refs = RemoteRefs::from([("refs/heads/main".to_owned(), base.to_owned())]);
    let place = PushBase { update, refs: refs.into(), base: "main".to_owned() };
    quarantine.incoming(&place, &PathGuard::new(&PolicySpec::default(), None, &[]).unwrap()).await
}

#[tokio::test]
async fn a_small_push_of_many_commits_that_each_change_much_is_refused() {
    let attack = Alternating::make(300, 300, 40);
    let begun = Instant::now();
    let Err(ReceiveError::Refused(why)) = attack.push().await else { panic!("it is accepted") };
    for part in ["more files than can be looked at", "200000 over all its commits", "of 40"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(why.contains("push the first") && why.contains("squash"), "{why}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn commits_that_change_the_same_share_what_they_change() {
    let push = Alternating::make(10, 10, 41).push().await.unwrap();
    assert_eq!(push.commits.len(), 41);
    assert_eq!(push.commits[40].changes.len(), 100);
    // The first one differs from the base, the others go to and fro.
    let shares =
        |a: usize, b: usize| Arc::ptr_eq(&push.commits[a].changes, &push.commits[b].changes);
    assert!(shares(1, 3) && shares(2, 40) && !shares(1, 2) && !shares(0, 2));
}

#[tokio::test]
async fn commits_with_long_messages_are_counted_together() {
    let shop = TestRepository::new();
    let base = shop.commit(&[], &[("README.md", "# shop\n")]);
    shop.run(&["update-ref", "refs/heads/main", &base], "");
    let tree = shop.run(&["rev-parse", &format!("{base}^{{tree}}")], "");
    let mut tip = base.clone();
    for n in 0..12 {
        let message = format!("Change {n}\n\n{}", "x".repeat(3 << 20));
        tip = shop.run(&["commit-tree", &tree, "-p", &tip], &message);
    }
    let Err(ReceiveError::Refused(why)) = push(&shop, &base, &tip).await else {
        panic!("it is accepted")
    };
    assert!(why.contains("may have 32 MiB") && why.contains("of 12"), "{why}");
}

#[tokio::test]
async fn a_guarded_file_is_compared_by_its_path_alone() {
    let shop = TestRepository::new();
    let ci = ".github/workflows/ci.yml";
    let base = shop.commit(&[], &[(ci, "on: push\n"), ("a.txt", "a\n")]);
    let newer = shop.commit(&[&base], &[(ci, "on: [push]\n"), ("b.txt", "b\n")]);
    shop.run(&["update-ref", "refs/heads/main", &newer], "");
    // Brought in as people have accepted it, and then changed.
    let merged = shop.commit(&[&base, &newer], &[(ci, "on: [push]\n"), ("b.txt", "b\n")]);
    let own = shop.commit(&[&merged], &[(ci, "on: evil\n")]);
    let mut found = Vec::new();
    for tip in [&merged, &own] {
        let push = push(&shop, &newer, tip).await.unwrap();
        found.push(push.commits.last().unwrap().accepted.contains(ci));
    }
    assert_eq!(found, [true, false]);
}
