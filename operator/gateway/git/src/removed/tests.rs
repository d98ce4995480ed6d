use super::*;
use crate::testing::TestRepository;

fn at() -> Timestamp {
    "2026-11-25T10:00:00Z".parse().unwrap()
}

async fn loss(shop: &TestRepository, before: &str, now: &str, base: &str) -> BranchLoss {
    find_loss(&shop.git(), (before, now), Some(base), (&SecretRedactor::default(), at()))
        .await
        .unwrap()
}

fn new_commit(id: &str, message: &str) -> NewCommit {
    let text = format!("tree x\n\n{message}\n");
    NewCommit { id: id.to_owned(), text, ..NewCommit::default() }
}

#[tokio::test]
async fn what_is_gone_is_known_by_its_id_and_by_its_change() {
    let shop = TestRepository::new();
    let base = shop.commit(&[], &[("a", "1\n"), ("c", "1\n")]);
    let kept = shop.commit(&[&base], &[("b", "1\n")]);
    let gone = shop.commit(&[&kept], &[("a", "2\n")]);
    let top = shop.commit(&[&gone], &[("b", "2\n")]);
    // A person took one out of the middle.
    let after = shop.commit(&[&kept], &[("b", "2\n")]);
    let lost = loss(&shop, &top, &after, &base).await;
    assert_eq!(lost.count, Some(2));
    assert_eq!(lost.moved, BTreeSet::from([top.clone()]));
    let removed = lost.commits;
    assert_eq!(removed.len(), 2);
    assert!(removed[0].patch.is_none() && removed[1].patch.is_some());

    let git = shop.git();
    let back = async |new: &str, commits: &[NewCommit]| {
        let there = [&*after, &*base];
        let found = find_brought_back(&git, (new, &there), &removed, commits).await.unwrap();
        found.into_iter().map(|one| (one.id, one.removed.id)).collect::<Vec<_>>()
    };
    let own = shop.commit(&[&after], &[("d", "1\n")]);
    assert_eq!(back(&own, &[new_commit(&own, "Own")]).await, []);
    let merged = shop.commit(&[&own, &top], &[]);
    let both = back(&merged, &[new_commit(&merged, "Merge")]).await;
    let ids: BTreeSet<_> = both.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, BTreeSet::from([gone.clone(), top.clone()]));
    let again = shop.commit(&[&own], &[("a", "2\n")]);
    let expected = [(again.clone(), gone.clone())];
    assert_eq!(back(&again, &[new_commit(&again, "Change")]).await, expected);
    let said = format!("Change\n\n(cherry picked from commit {gone})");
    assert_eq!(back(&again, &[new_commit(&again, &said)]).await, []);
    let said = format!("Change\n\n(cherry picked from commit {top})");
    assert_eq!(back(&again, &[new_commit(&again, &said)]).await, expected);
    // Commits that the base branch has come with it and are not reported.
    let there = [&*after, &*top];
    assert_eq!(find_brought_back(&git, (&merged, &there), &removed, &[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_digest_is_of_the_change_alone() {
    let shop = TestRepository::new();
    let git = shop.git();
    let digest = async |id: &str| patch_digest(&git, id).await.unwrap();
    let base = shop.commit(&[], &[("a", "1\n2\n3\n4\n5\n6\n7\n8\n"), ("p", "\u{0}1")]);
    let shifted = shop.commit(&[&base], &[("a", "0\n1\n2\n3\n4\n5\n6\n7\n8\n")]);
    let one = shop.commit(&[&base], &[("a", "1\n2\n3\n4\n5\n6\n7\n9\n")]);
    let same = shop.commit(&[&shifted], &[("a", "0\n1\n2\n3\n4\n5\n6\n7\n9\n")]);
    assert_eq!(digest(&one).await, digest(&same).await);
    assert!(digest(&one).await.is_some_and(|digest| digest.len() == DIGEST));
    // Blanks and what is no text count.
    let blank = shop.commit(&[&base], &[("a", "1\n2\n3\n4\n5\n6\n7\n9 \n")]);
    assert_ne!(digest(&one).await, digest(&blank).await);
    let (picture, other) =
        (shop.commit(&[&base], &[("p", "\u{0}2")]), shop.commit(&[&base], &[("p", "\u{0}3")]));
    assert_ne!(digest(&picture).await, digest(&other).await);
    // Empty commits can't be told apart by their change.
    let empty = shop.commit(&[&base], &[]);
    assert_eq!(digest(&empty).await, None);
    assert_eq!(digest(&shop.commit(&[&one, &other], &[])).await, None);
}

#[test]
fn what_is_remembered_is_bounded_and_forgets_what_is_there_again() {
    let one = |id: &str, patch: Option<&str>| RemovedCommit {
        commit: id.to_owned(),
        patch: patch.map(str::to_owned),
        subject: String::new(),
        author: String::new(),
        noticed: Time(at()),
    };
    let ids =
        |known: &[RemovedCommit]| known.iter().map(|one| one.commit.clone()).collect::<Vec<_>>();
    let mut known = vec![one("a", None), one("b", Some("p"))];
    let there = BTreeSet::from(["b".to_owned()]);
    remember_removed(&mut known, &[one("c", None), one("a", Some("q"))], &there);
    assert_eq!(ids(&known), ["c", "a"]);
    assert_eq!(known[1].patch.as_deref(), Some("q"));
    let many: Vec<RemovedCommit> = (0..200).map(|n| one(&n.to_string(), None)).collect();
    remember_removed(&mut known, &many, &BTreeSet::new());
    assert_eq!((known.len(), &*known[0].commit), (MOST_REMOVED, "0"));
}
