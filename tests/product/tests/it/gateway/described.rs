//! A pull request's description and title, which people edit too.

use codebutler_testbed::github::PullRequest;
use serde_json::{Value, json};

use super::World;
use super::close::decided;
use super::pull_request::with_a_commit;

const PULL: &str = "/v1/pull-request";
const CHECKLIST: &str = "## Checklist (by Ben)\n- [x] Ticket SHOP-77\n<!-- seen -->";

async fn opened() -> (World, PullRequest) {
    let world = with_a_commit().await;
    world.approve_plan().await;
    post(&world, "Fix the total", "Because.\n\n- [ ] tested").await;
    let pull = pull(&world).await;
    (world, pull)
}

async fn post(world: &World, title: &str, body: &str) -> Value {
    let wanted = json!({"title": title, "body": body});
    let (status, answer) = world.post("coder", PULL, &wanted).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn pull(world: &World) -> PullRequest {
    world.remote.pulls().await.unwrap().remove(0)
}

/// Turns CRLF into plain line breaks.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

#[tokio::test]
async fn what_people_added_stays_when_a_role_updates_it_and_when_the_thread_closes() {
    let world = decided("merge").await;
    let before = pull(&world).await;
    let edited = format!("{}\n\n{CHECKLIST}\n", before.body);
    world.remote.edit_pull(before.number, Some("SHOP-77: the total"), Some(&edited)).await.unwrap();
    let answer = post(&world, "Fix the total", "Because of rounding.").await;
    assert!(answer["kept"].to_string().contains("its title"), "{answer}");
    let now = pull(&world).await;
    assert_eq!(now.title, "SHOP-77: the total");
    assert!(lines(&now.body).contains(CHECKLIST), "{}", now.body);
    assert!(now.body.contains("Because of rounding."), "{}", now.body);

    let summary = json!({"summary": "README says hello. [skip ci] is not wanted here."});
    let (status, closed) = world.post("lead", "/v1/close", &summary).await;
    assert_eq!(status, 200, "{closed}");
    let end = pull(&world).await;
    assert!(lines(&end.body).contains(CHECKLIST), "{}", end.body);
    assert!(end.body.contains("Because of rounding.") && end.body.contains("README says hello."));
    let message = world.remote.log("main").await.unwrap().remove(0).message;
    assert!(message.starts_with("SHOP-77: the total (#"), "{message}");
    assert!(message.contains("README says hello.") && !message.contains("[skip ci]"), "{message}");
}

#[tokio::test]
async fn an_edit_inside_of_ours_stays_and_marks_can_go() {
    let (world, first) = opened().await;
    let ticked = first.body.replace("- [ ] tested", "- [x] tested by Ben");
    assert_ne!(ticked, first.body);
    world.remote.edit_pull(first.number, None, Some(&ticked)).await.unwrap();
    let answer = post(&world, "Fix the total", "For other reasons.").await;
    assert!(answer["kept"].to_string().contains("edited the description"), "{answer}");
    let body = pull(&world).await.body;
    assert!(body.contains("- [x] tested by Ben") && body.contains("For other reasons."), "{body}");
    assert_eq!(body.matches("hecked by CodeButler").count(), 1, "{body}");

    // Whoever finds marks in the way takes them out.
    let bare: Vec<&str> = body.lines().filter(|line| !line.contains("codebutler:")).collect();
    world.remote.edit_pull(first.number, None, Some(&bare.join("\n"))).await.unwrap();
    post(&world, "Fix the total", "For good reasons.").await;
    let body = pull(&world).await.body;
    for part in ["- [x] tested by Ben", "For other reasons.", "For good reasons."] {
        assert_eq!(body.matches(part).count(), 1, "{part}: {body}");
    }
    let again = post(&world, "Fix the total", "For good reasons.").await;
    assert_eq!(pull(&world).await.body, body, "{again}");
}

#[tokio::test]
async fn a_description_without_room_is_left_to_people() {
    let (world, first) = opened().await;
    let long = format!("{}\n\n{}", first.body, "Ünlimited 🙂 ".repeat(4600));
    world.remote.edit_pull(first.number, None, Some(&long)).await.unwrap();
    let answer = post(&world, "Fix the total", &"word ".repeat(11_000)).await;
    assert!(answer["kept"].to_string().contains("shortened"), "{answer}");
    let body = pull(&world).await.body;
    assert!(body.contains(&"Ünlimited 🙂 ".repeat(4600)), "all of it stays");
    assert!(body.contains("word word") && body.contains("_(shortened"));
}

#[tokio::test]
async fn all_of_many_checks_are_read() {
    let (world, first) = opened().await;
    for n in 0..230 {
        let said = if n == 105 { "failure" } else { "success" };
        world
            .remote
            .report_check(&first.head_sha, &format!("build {n}"), Some(said), "")
            .await
            .unwrap();
    }
    let (status, state) = world.get("coder", PULL).await;
    assert_eq!(status, 200, "{state}");
    let checks = state["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 230);
    let red: Vec<_> = checks.iter().filter(|check| check["state"] == "failure").collect();
    assert_eq!((red.len(), &red[0]["name"]), (1, &json!("build 105")));
}
