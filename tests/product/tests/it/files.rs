//! Files in a conversation: long code leaves as one and is read by other roles, a person's texts
//! are read, and nothing else is fetched.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::CallFault;
use serde_json::json;

use crate::support::{Setup, Team};

/// The user messages of the last request that a role made, as one text.
fn last_prompt(team: &Team, role: &str) -> String {
    let requests = team.stack.models.requests();
    let last = requests.iter().rfind(|r| r.role.as_deref() == Some(role)).unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let users = messages.iter().filter(|m| m["role"] == "user");
    users.map(|m| m["content"].to_string()).collect()
}

fn code() -> String {
    let lines: Vec<String> = (0..30).map(|n| format!("let line_{n} = {n};")).collect();
    lines.join("\n") + "\n"
}

fn hand_over() -> ModelScript {
    let text = format!("Look at this:\n\n```rust\n{}```\n\n@codebutler.coder your turn", code());
    ModelScript::of("pm", vec![ScriptStep::say(&text)])
        .and("coder", vec![ScriptStep::say("I have read it.")])
}

#[tokio::test(flavor = "multi_thread")]
async fn long_code_is_a_file_that_the_next_role_reads() {
    let team = Setup::new(hand_over()).start().await;
    let root = team.says("ana", None, "show the coder your idea");
    team.message(&root, "I have read it.").await;
    let messages = team.messages(&root);
    let files: Vec<_> = messages.iter().flat_map(|m| &m.files).collect();
    assert_eq!(files.len(), 1, "{messages:?}");
    assert!(files[0].name.starts_with("code-") && files[0].name.ends_with("-1.rs"), "{files:?}");
    assert_eq!(files[0].size, code().len());
    let pm = messages.iter().find(|m| m.shown.contains("your turn")).unwrap();
    assert!(pm.shown.contains(&format!("📎 `{}` (30 lines)", files[0].name)), "{}", pm.shown);
    assert!(!pm.shown.contains("line_29"), "{}", pm.shown);
    assert!(last_prompt(&team, "coder").contains("let line_29 = 29;"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_shows_pictures_of_its_worktree_and_nothing_else() {
    let make =
        r"printf '\211PNG\r\n\032\n\0\0' > shot.png; ln -s /etc/passwd out.png; echo x > a.png";
    let show = |picture: &str| {
        ScriptStep::tool("SendMessage", json!({"message": "Look at this.", "pictures": [picture]}))
    };
    let steps = vec![
        ScriptStep::tool("Bash", json!({"command": make})),
        show("../../etc/passwd"),
        show("out.png").expecting("outside the worktree"),
        show("a.png").expecting("outside the worktree"),
        show("shot.png").expecting("is no picture"),
        ScriptStep::say("Done."),
    ];
    let team = Setup::new(ModelScript::of("coder", steps)).start().await;
    let root = team.says("ana", None, "@codebutler.coder how does it look?");
    team.message(&root, "Done.").await;
    let messages = team.messages(&root);
    let files: Vec<_> = messages.iter().flat_map(|m| &m.files).collect();
    assert_eq!(files.len(), 1, "{messages:?}");
    let name = &files[0].name;
    assert!(name.starts_with("picture-") && name.ends_with("-1.png"), "{name}");
    let sent = team.stack.slack.file(&files[0].id);
    assert_eq!(sent.as_deref(), Some(&b"\x89PNG\r\n\x1a\n\0\0"[..]));
    let said: Vec<_> = messages.iter().filter(|m| m.shown.contains("Look at this.")).collect();
    assert_eq!(said.len(), 1, "{messages:?}");
    assert!(said[0].shown.contains(&format!("📎 `{name}`")), "{}", said[0].shown);
    assert_eq!(said[0].sender.name, "Coder");
    let (kind, bytes) = picture_on_page(&team, &root, name).await.unwrap();
    assert_eq!((kind.as_str(), Some(bytes)), ("image/png", sent));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_stays_in_the_text_where_slack_takes_no_files() {
    let team = Setup::new(hand_over()).start().await;
    let refused = CallFault::Error("missing_scope".to_owned());
    team.stack.slack.fail_next("files.getUploadURLExternal", 100, &refused);
    let root = team.says("ana", None, "show the coder your idea");
    team.message(&root, "I have read it.").await;
    let messages = team.messages(&root);
    assert!(messages.iter().all(|m| m.files.is_empty()), "{messages:?}");
    assert!(messages.iter().any(|m| m.shown.contains("line_29")), "{messages:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_answer_got_lost_is_not_repeated() {
    let team = Setup::new(hand_over()).start().await;
    team.stack.slack.fail_next("files.completeUploadExternal", 1, &CallFault::LostReply);
    let root = team.says("ana", None, "show the coder your idea");
    team.message(&root, "I have read it.").await;
    let messages = team.messages(&root);
    assert_eq!(messages.iter().flat_map(|m| &m.files).count(), 1, "{messages:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_text_file_is_read_and_a_picture_is_named() {
    let team =
        Setup::new(ModelScript::of("pm", vec![ScriptStep::say("One."), ScriptStep::say("Two.")]))
            .start()
            .await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = &team.stack.users["ana"];
    let log = ("build.log", b"error: ``` 0.30000000000000004".as_slice());
    let (root, _) = slack.upload_as(ana, channel, None, "<@BOT> see the log", log).unwrap();
    team.message(&root, "One.").await;
    let prompt = last_prompt(&team, "pm");
    assert!(prompt.contains("build.log") && prompt.contains("0.30000000000000004"), "{prompt}");

    let picture = ("shot.zip", b"PK\x03\x04".as_slice());
    slack.upload_as(ana, channel, Some(&root), "and this", picture).unwrap();
    team.message(&root, "Two.").await;
    let prompt = last_prompt(&team, "pm");
    assert!(prompt.contains("shot.zip") && prompt.contains("not shown here"), "{prompt}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_picture_reaches_a_model_that_sees() {
    let steps = ["One.", "Two.", "Three."].map(ScriptStep::say).to_vec();
    let team = Setup::new(ModelScript::of("pm", steps)).start().await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = &team.stack.users["ana"];
    let png = b"\x89PNG\r\n\x1a\n\0\0".as_slice();
    let (root, _) =
        slack.upload_as(ana, channel, None, "what is wrong here?", ("shot.png", png)).unwrap();
    team.message(&root, "One.").await;
    let requests = team.stack.models.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    // It stands behind the words that it came with, in the same message.
    let parts = messages.iter().find_map(|m| m["content"].as_array()).unwrap();
    let at = parts.iter().position(|part| part["type"] == "image_url").unwrap();
    assert_eq!(parts[at - 1]["text"], "[CodeButler] `shot.png`:");
    assert_eq!(parts[at]["image_url"]["url"], "data:image/png;base64,iVBORw0KGgoAAA==");
    assert!(last_prompt(&team, "pm").contains("shot.png, image/png, 10 bytes: a picture"));

    // A file that only calls itself a picture is not handed out, and one that is too large is, as Slack shows it.
    let fake = ("fake.png", b"<svg onload=alert(1)>".as_slice());
    slack.upload_as(ana, channel, Some(&root), "and this", fake).unwrap();
    team.message(&root, "Two.").await;
    let huge = vec![0x89; 3 * 1024 * 1024 + 1];
    slack.upload_as(ana, channel, Some(&root), "and this", ("huge.png", &huge)).unwrap();
    team.message(&root, "Three.").await;
    let prompt = last_prompt(&team, "pm");
    // Slack has a smaller copy of it.
    assert!(prompt.contains("a picture, shown at 1024 px: models take PNG, JPEG"), "{prompt}");
    assert_eq!(prompt.matches("image_url").count(), 4, "two parts, kind and name: {prompt}");
    let shown = picture_on_page(&team, &root, "shot.png").await;
    assert_eq!(shown, Ok(("image/png".to_owned(), png.to_vec())));
    assert_eq!(picture_on_page(&team, &root, "fake.png").await, Err(404));
    let page = page_of(&team, &root).await;
    assert!(page.1.contains("alt=\"huge.png\""), "{}", page.1);
    let smaller = picture_on_page(&team, &root, "huge.png").await.unwrap();
    assert!(smaller.1.len() < huge.len(), "as Slack shows it");
    // A line that shows none has none.
    let none = reqwest::get(format!("{}/lines/1/picture", page.0)).await.unwrap();
    assert_eq!(none.status().as_u16(), 404);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_is_in_another_channel_by_now_is_not_shown() {
    let team =
        Setup::new(ModelScript::of("pm", vec![ScriptStep::say("One."), ScriptStep::say("Two.")]))
            .start()
            .await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = &team.stack.users["ana"];
    let png = b"\x89PNG\r\n\x1a\n\0\0".as_slice();
    let root = team.says("ana", None, "look at these");
    team.message(&root, "One.").await;
    let (stays, _) = slack.upload_as(ana, channel, Some(&root), "one", ("stays.png", png)).unwrap();
    let (goes, id) = slack.upload_as(ana, channel, Some(&root), "two", ("goes.png", png)).unwrap();
    assert!(stays < goes);
    team.until("both on the page", || async {
        let (_, page) = page_of(&team, &root).await;
        ["stays.png", "goes.png"]
            .iter()
            .all(|name| page.contains(&format!("alt=\"{name}\"")))
            .then_some(())
    })
    .await;
    let private = slack.create_channel("board", &[ana]);
    slack.delete_as(ana, channel, &goes).unwrap();
    slack.share_as(ana, &private, "for the board alone", &id).unwrap();
    assert_eq!(picture_on_page(&team, &root, "goes.png").await, Err(404));
    let shown = picture_on_page(&team, &root, "stays.png").await;
    assert_eq!(shown, Ok(("image/png".to_owned(), png.to_vec())));
    team.stop().await;
}

/// A conversation's page: its address and text.
async fn page_of(team: &Team, root: &str) -> (String, String) {
    let name = team.thread(root).await.metadata.name.unwrap();
    let pages = team.stack.metrics.pages.unwrap();
    let address = format!("http://{pages}/{}/{name}", team.stack.place.team);
    let page = reqwest::get(&address).await.unwrap().text().await.unwrap();
    (address, page)
}

/// A picture as a browser finds it on the conversation's page, with its kind; or the status.
async fn picture_on_page(team: &Team, root: &str, name: &str) -> Result<(String, Vec<u8>), u16> {
    let alt = format!("alt=\"{name}\"");
    let source = team
        .until(name, || async {
            let (address, page) = page_of(team, root).await;
            let image = page.split("<img ").find(|image| image.contains(&alt))?;
            let path = image.split("src=\"").nth(1)?.split('"').next()?;
            let host = address.split('/').nth(2)?;
            Some(format!("http://{host}{path}"))
        })
        .await;
    let answer = reqwest::get(source).await.unwrap();
    if !answer.status().is_success() {
        return Err(answer.status().as_u16());
    }
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(answer.headers()["cache-control"], "private, max-age=60");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    Ok((kind, answer.bytes().await.unwrap().to_vec()))
}
