//! Changes of roles at GitHub beside their pull request: people say yes to exactly that, and it happens once.

use serde_json::{Value, json};

use super::remote::with_a_pull;
use super::{World, eventually};

const CHANGES: &str = "/v1/remote-changes";

pub(super) async fn wants(world: &World, change: &Value) -> (u16, String) {
    let (status, body) = world.post("coder", CHANGES, &json!({"change": change})).await;
    let code = body["error"]["code"].as_str().map(str::to_owned);
    (status, code.or_else(|| body["url"].as_str().map(str::to_owned)).unwrap_or_default())
}

/// Answers as the gateway's Slack part would after a person's click on the newest question.
pub(super) async fn answer_question(world: &World, answer: &str) {
    let approvals = world.thread().await.status.unwrap_or_default().approvals;
    let mut asked = json!(approvals);
    let newest = asked.as_array_mut().unwrap().last_mut().unwrap();
    newest["answer"] = json!(answer);
    newest["by"] = json!(world.ana);
    world.patch_thread(&json!({"status": {"approvals": asked}})).await;
}

/// Asked twice, shown once, and done after a yes.
pub(super) async fn happens(world: &World, change: &Value, shown: &str) -> String {
    for _ in 0..2 {
        assert_eq!(wants(world, change).await, (403, "needs_approval".to_owned()), "{change}");
    }
    let said = world.slack.messages(&world.channel, Some(&world.root));
    let questions = said.iter().filter(|message| message.shown.contains(shown));
    assert_eq!(questions.count(), 1, "{shown}: {said:?}");
    answer_question(world, "approved").await;
    let mut url = String::new();
    let done = eventually("it is done once people said yes", || async {
        wants(world, change).await.0 == 200
    });
    done.await;
    for _ in 0..2 {
        let (status, page) = wants(world, change).await;
        assert_eq!(status, 200, "done is done: {change}");
        url = page;
    }
    url
}

#[tokio::test]
async fn what_others_see_happens_once_and_after_a_yes_to_exactly_that() {
    let tools = ["GHIssues", "GHLabel", "GHOpenIssue", "GHAnswer", "GHRelease"];
    let (world, pull) = with_a_pull(&tools).await;
    let issue = world.remote.open_issue("ana", "It breaks", "Here.", &["area/api"]).await.unwrap();
    let labels =
        json!({"kind": "labels", "number": issue, "add": ["kind/bug"], "remove": ["area/api"]});
    happens(&world, &labels, "add kind/bug; remove area/api").await;
    let (_, read) = world.get("coder", &format!("/v1/issues?number={issue}")).await;
    assert_eq!(read["labels"], json!(["kind/bug"]));

    let opened = json!({"kind": "issue", "title": "Round up", "body": "See above.", "labels": []});
    let page = happens(&world, &opened, "Round up").await;
    let other: u64 = page.rsplit('/').next().unwrap().parse().unwrap();
    let remark = json!({"kind": "comment", "number": other, "body": "Half is up."});
    happens(&world, &remark, "Half is up.").await;
    let (_, read) = world.get("coder", &format!("/v1/issues?number={other}")).await;
    assert_eq!(read["comments"].as_array().unwrap().len(), 1, "{read}");
    let beside = json!({"kind": "comment", "number": pull, "body": "On a pull request."});
    happens(&world, &beside, "On a pull request.").await;

    let release = json!({"kind": "release", "tag": "v1.0.0", "title": "First", "notes": "All.", "prerelease": false});
    happens(&world, &release, "Publish the release v1.0.0 of main").await;
    let git = world.remote.git();
    let tagged = git.run(&["rev-parse", "v1.0.0"]).await.unwrap();
    assert_eq!(tagged.trim(), git.run(&["rev-parse", "main"]).await.unwrap().trim());
    // The same tag with other words is somebody else's.
    let again = json!({"kind": "release", "tag": "v1.0.0", "title": "Second", "notes": "x", "prerelease": false});
    assert_eq!(wants(&world, &again).await, (400, "invalid_request".to_owned()));
    // A release of a tag that is there would be of whatever it names.
    git.run(&["tag", "v0.9.0", "main"]).await.unwrap();
    let old = json!({"kind": "release", "tag": "v0.9.0", "title": "Old", "notes": "x", "prerelease": false});
    assert_eq!(wants(&world, &old).await, (400, "invalid_request".to_owned()));
    let missing = json!({"kind": "labels", "number": 99, "add": ["bug"], "remove": []});
    assert_eq!(
        wants(&world, &missing).await,
        (400, "invalid_request".to_owned()),
        "nobody is asked"
    );

    let no = json!({"kind": "labels", "number": issue, "add": ["wontfix"], "remove": []});
    assert_eq!(wants(&world, &no).await.0, 403);
    answer_question(&world, "denied").await;
    eventually("a no is told", || async {
        let (_, body) = world.post("coder", CHANGES, &json!({"change": no})).await;
        body["error"]["message"].as_str().is_some_and(|why| why.contains("a person said no"))
    })
    .await;
    let (status, code) = {
        let (status, body) = world.post("lead", CHANGES, &json!({"change": no})).await;
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!((status, &*code), (403, "forbidden"), "a role without the tool");
}
