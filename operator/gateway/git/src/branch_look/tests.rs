use codebutler_crds::thread::{BranchRadar, StackMerge, StackStanding};
use serde_json::json;

use super::*;
use crate::testing::TestRepository;

fn span<'s>(before: Option<&'s str>, now: Option<&'s str>) -> BranchSpan<'s> {
    BranchSpan { branch: "codebutler/t", before, now }
}

async fn moved(
    shop: &TestRepository,
    (before, now): (Option<&str>, Option<&str>),
    status: &ThreadStatus,
    refs: &[(&str, &str)],
) -> BranchMove {
    let repo: Repo = serde_json::from_value(json!({
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {
            "git": {"url": "https://example.com/acme/shop", "branch": "main", "credentials": {"name": "git"}},
            "slack": {"channel": "C0123ABCD", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
        },
    }))
    .unwrap();
    let refs = refs.iter().map(|(name, id)| (format!("refs/heads/{name}"), (*id).to_owned()));
    let (git, refs) = (shop.git(), refs.collect());
    let view = RemoteView { git: &git, refs: &refs };
    find_move((&repo, &SecretRedactor::default()), &view, &span(before, now), status).await.unwrap()
}

fn pushing(from: Option<&str>, to: &str) -> ThreadStatus {
    let push = BranchPush { from: from.map(str::to_owned), to: to.to_owned() };
    let radar = BranchRadar { pushing: Some(push), ..BranchRadar::default() };
    ThreadStatus { radar: Some(Box::new(radar)), ..ThreadStatus::default() }
}

#[tokio::test]
async fn what_people_did_is_told_from_what_the_product_did() {
    let shop = TestRepository::new();
    let base = shop.commit(&[], &[("a", "1")]);
    let own = shop.commit(&[&base], &[("a", "2")]);
    let theirs = shop.commit(&[&own], &[("b", "1")]);
    let other = shop.commit(&[&base], &[("a", "3")]);
    let main = [("main", &*base)];
    let of = async |before: &str, now: &str, status: &ThreadStatus| {
        moved(&shop, (Some(before), Some(now)), status, &main).await
    };
    let nothing = ThreadStatus::default();
    let is_pushed = |moved: &BranchMove, count: usize| matches!(moved, BranchMove::Pushed(named, all) if *all == count && named.len() == count);
    assert!(is_pushed(&of(&own, &theirs, &nothing).await, 1));
    assert!(is_pushed(&of(&base, &theirs, &nothing).await, 2));
    assert_eq!(of(&base, &own, &pushing(Some(&base), &own)).await, BranchMove::Own);
    assert!(is_pushed(&of(&base, &theirs, &pushing(Some(&base), &own)).await, 1), "on top of it");
    // A role that may rewrite its branch, and one whose push has not come there.
    assert_eq!(of(&own, &other, &pushing(Some(&own), &other)).await, BranchMove::Own);
    let rewritten = of(&own, &base, &pushing(Some(&own), &other)).await;
    assert!(matches!(&rewritten, BranchMove::Rewritten(loss) if loss.count == Some(1)));
    let rewritten = of(&theirs, &other, &pushing(Some(&own), &other)).await;
    assert!(matches!(&rewritten, BranchMove::Rewritten(loss) if loss.count == Some(2)));
    // A merge of the gateway's own, and one of the base branch.
    let merge = StackMerge { from: own.clone(), to: theirs.clone(), base: false };
    let stack = StackStanding { merge: Some(merge), ..StackStanding::default() };
    let stacked = ThreadStatus { stack: Some(Box::new(stack)), ..ThreadStatus::default() };
    assert_eq!(of(&own, &theirs, &stacked).await, BranchMove::Own);
    let gone = moved(&shop, (Some(&own), None), &nothing, &[("main", &base), ("mine", &own)]).await;
    assert_eq!(gone, BranchMove::Gone(vec!["mine".to_owned()]));
    assert_eq!(moved(&shop, (None, Some(&own)), &nothing, &main).await, BranchMove::Own);
}

#[tokio::test]
async fn people_read_what_was_where_and_what_is_gone() {
    let shop = TestRepository::new();
    let base = shop.commit(&[], &[("a", "1\n")]);
    let first = shop.commit(&[&base], &[("a", "2\n")]);
    let second = shop.commit(&[&first], &[("b", "1\n")]);
    let says = |moved: &BranchMove| {
        assert!(is_news(moved, true));
        describe_move(moved, &span(Some(&second), Some(&base)), "`ana`")
    };
    let main = [("main", &*base)];
    let nothing = ThreadStatus::default();
    let lost = moved(&shop, (Some(&second), Some(&base)), &nothing, &main).await;
    let text = says(&lost);
    let named = format!(
        "2 commits that it had are not in it any more: `{} Change (A)`, `{} Change (A)`.",
        &second[..10],
        &first[..10]
    );
    assert!(text.contains(&named) && text.contains(&format!("is at `{}`", &base[..10])), "{text}");
    // One of the commits is on the branch under another id.
    let moved_one = shop.commit(&[&base], &[("b", "1\n")]);
    let lost = moved(&shop, (Some(&second), Some(&moved_one)), &nothing, &main).await;
    let text = says(&lost);
    assert!(
        text.contains(&format!("any more: `{} Change (A)`. 1 of them is", &first[..10])),
        "{text}"
    );
    // A copy that was made anew knows no more.
    let lost = moved(&shop, (Some(&"1".repeat(40)), Some(&base)), &nothing, &main).await;
    assert!(says(&lost).contains("Commits that it had are not in it any more: `1111111111`."));
    let came = moved(&shop, (Some(&base), Some(&first)), &nothing, &main).await;
    assert!(!is_news(&came, false) && !is_news(&BranchMove::Own, true));
    assert!(says(&came).starts_with("`ana` pushed 1 commit to this thread's branch"));
    let gone = says(&BranchMove::Gone(vec!["mine".to_owned()]));
    assert!(gone.contains("deleted or renamed") && gone.contains("(`mine` is there now"), "{gone}");
}
