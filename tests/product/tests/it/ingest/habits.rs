//! Slack's own behaviour: what it does, takes and shows, whatever anybody wants.

use std::path::Path;
use std::time::Duration;

use codebutler_crds::wire::{AskedDecision, PostMessage};
use codebutler_testbed::slack::{CallFault, MessageView, SlackError, canonical_emoji};

use super::desk::{Desk, PATIENCE, Setting};
use super::{ask, post};

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_message_is_told_once_where_to_write() {
    let desk = Desk::start().await;
    desk.reachable().await;
    let im = desk.slack.direct(&desk.ana);
    let ts = desk.slack.post_as(&desk.ana, &im, None, "can you fix the total?").unwrap();
    desk.slack.wait_acked(&ts, PATIENCE).await.unwrap();
    let answers = |root: Option<&str>| {
        let said = desk.slack.messages(&im, root).into_iter();
        said.filter(|message| message.sender.id != desk.ana).collect::<Vec<_>>()
    };
    // Slack shows a request to an agent as a thread of its own, and the answer only there.
    desk.until("an answer", || async { !answers(Some(&ts)).is_empty() }).await;
    desk.slack.redeliver(&ts, 1);
    let next = desk.slack.post_as(&desk.ana, &im, None, "hello?").unwrap();
    desk.slack.wait_acked(&next, PATIENCE).await.unwrap();
    desk.until("one more", || async { answers(Some(&next)).len() == 1 }).await;
    let told = answers(Some(&ts));
    assert!(told[0].text.contains(&format!("<#{}>", desk.channel)), "{told:?}");
    desk.slack.post_as(&desk.ana, &im, Some(&ts), "and here?").unwrap();
    desk.until("an answer in the thread", || async { answers(Some(&ts)).len() == 2 }).await;
    assert!(answers(None).is_empty(), "{:?}", answers(None));
    assert!(desk.threads().await.is_empty());
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_no_agent_answers_a_direct_message_where_it_was_written() {
    let scopes: &[&str] =
        &["chat:write", "channels:history", "channels:read", "im:history", "reactions:write"];
    let desk = Desk::with(Setting { scopes: Some(scopes), ..Setting::default() }).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    desk.reachable().await;
    let im = desk.slack.direct(&desk.ana);
    let ts = desk.slack.post_as(&desk.ana, &im, None, "can you fix the total?").unwrap();
    let answers = |root: Option<&str>| {
        let said = desk.slack.messages(&im, root).into_iter();
        said.filter(|message| message.sender.id != desk.ana).count()
    };
    desk.until("an answer", || async { answers(None) == 1 }).await;
    desk.slack.post_as(&desk.ana, &im, Some(&ts), "and here?").unwrap();
    desk.until("an answer in the thread", || async { answers(Some(&ts)) == 1 }).await;
    assert_eq!(answers(None), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_help_is_told_what_can_be_asked_and_starts_no_model() {
    let desk = Desk::start().await;
    desk.reachable().await;
    for text in ["help", "@codebutler"] {
        let ts = desk.slack.post_as(&desk.ana, &desk.channel, None, text).unwrap();
        desk.slack.wait_acked(&ts, PATIENCE).await.unwrap();
        let answers = || {
            let said = desk.slack.messages(&desk.channel, Some(&ts)).into_iter();
            said.filter(|message| message.sender.id != desk.ana).collect::<Vec<_>>()
        };
        desk.until("help", || async { !answers().is_empty() }).await;
        assert!(answers()[0].text.contains("such as:"), "{:?}", answers());
        desk.slack.redeliver(&ts, 1);
        // The message that comes after it is taken in after it.
        let next = desk.said("please plan").await;
        assert_eq!(answers().len(), 1, "{next}: {:?}", answers());
    }
    assert_eq!(desk.threads().await.len(), 2, "those of the two other messages");
    // In a thread where somebody works, only the person who asks sees it.
    let root = desk.said("and this").await;
    desk.slack.post_as(&desk.ana, &desk.channel, Some(&root), "Help!").unwrap();
    desk.whispered(&desk.ana, &root, "such as:").await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_gateway_answers_a_request_for_help_again() {
    let mut desk = Desk::start().await;
    desk.reachable().await;
    desk.cursor().await;
    let im = desk.slack.direct(&desk.ana);
    let busy = desk.said("please plan").await;
    let ask = |channel: &str, thread: Option<&str>| {
        desk.slack.post_as(&desk.ana, channel, thread, "help").unwrap()
    };
    // Slack has posted it, and the gateway can't know.
    desk.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
    let open = ask(&desk.channel, None);
    let (slack, place) = (desk.slack.clone(), desk.channel.clone());
    let count = |channel: &str, root: Option<&str>| {
        let said = slack.messages(channel, root);
        said.iter().filter(|one| one.text.contains("such as:")).count()
    };
    desk.until("the first answer", || async { count(&place, Some(&open)) == 1 }).await;
    let direct = ask(&im, None);
    let asked = [open.clone(), ask(&desk.channel, Some(&busy)), direct.clone()];
    let places = [(&place, &open), (&place, &busy), (&im, &direct)];
    let answers = || places.map(|(channel, root)| count(channel, Some(root)));
    desk.until("answers", || async { answers() == [1, 1, 1] }).await;
    // Somebody works there from now on: what was answered before is answered.
    let reply = desk.says(Some(&open), "then fix the total");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();

    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    for ts in &asked {
        assert!(desk.slack.redeliver(ts, 1) > 0);
    }
    let next = desk.said("and this").await;
    desk.until("all is read back", || async {
        let cursor = desk.repo().await.status.and_then(|status| status.slack.cursor);
        cursor.is_some_and(|cursor| cursor.as_str() >= next.as_str())
    })
    .await;
    // It ends when all that follows is done.
    desk.gateway.take().unwrap().stop().await;
    assert_eq!(answers(), [1, 1, 1]);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn help_that_slack_can_not_show_to_one_person_is_posted_once() {
    let desk = Desk::start().await;
    desk.reachable().await;
    let root = desk.said("please plan").await;
    let refused = CallFault::Error("user_not_in_channel".to_owned());
    desk.slack.fail_next("chat.postEphemeral", 1, &refused);
    let asked = desk.slack.post_as(&desk.ana, &desk.channel, Some(&root), "help").unwrap();
    let answers = || {
        let said = desk.slack.messages(&desk.channel, Some(&root)).into_iter();
        said.filter(|one| one.text.contains("such as:")).collect::<Vec<_>>()
    };
    desk.until("an answer", || async { !answers().is_empty() }).await;
    let status = || async { desk.thread(&root).await.and_then(|thread| thread.status) };
    desk.until("its end is on record", || async {
        status().await.is_some_and(|status| {
            status.helping.is_empty() && status.helped.iter().any(|ts| ts.as_str() == asked)
        })
    })
    .await;
    assert!(desk.slack.redeliver(&asked, 1) > 0);
    desk.said("and this").await;
    let answers = answers();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].ephemeral_for, None, "{answers:?}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_help_is_left_to_the_gateway_that_answers_it() {
    let mut desk = Desk::start().await;
    desk.reachable().await;
    let root = desk.said("please plan").await;
    // Its queue is long; a gateway that starts meanwhile sees the request on record.
    let slow = CallFault::Slow(Duration::from_secs(4));
    desk.slack.fail_next("chat.postEphemeral", 1, &slow);
    let asked = desk.says(Some(&root), "help");
    let status = || async { desk.thread(&root).await.and_then(|thread| thread.status) };
    desk.until("it is on record", || async {
        status().await.is_some_and(|status| !status.helping.is_empty())
    })
    .await;
    let other = desk.standby();
    desk.until("it is over", || async {
        status().await.is_some_and(|status| {
            status.helping.is_empty() && status.helped.iter().any(|ts| ts.as_str() == asked)
        })
    })
    .await;
    assert_eq!(status().await.unwrap().claim, None);
    other.cancel();
    // It ends when all that follows is done.
    desk.gateway.take().unwrap().stop().await;
    let said = desk.slack.messages(&desk.channel, Some(&root));
    assert_eq!(said.iter().filter(|one| one.text.contains("such as:")).count(), 1, "{said:?}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slack_failed_to_show_is_shown_once_it_works_again() {
    let mut desk = Desk::start().await;
    desk.reachable().await;
    let im = desk.slack.direct(&desk.ana);
    let root = desk.said("please plan").await;
    let (slack, place) = (desk.slack.clone(), desk.channel.clone());
    let count = |channel: &str, root: Option<&str>, text: &str| {
        slack.messages(channel, root).iter().filter(|one| one.text.contains(text)).count()
    };
    desk.slack.fail_next("chat.postEphemeral", 1, &CallFault::Http(503));
    desk.says(Some(&root), "help");
    desk.until("help", || async { count(&place, Some(&root), "such as:") == 1 }).await;
    desk.slack.fail_next("chat.postMessage", 3, &CallFault::Http(503));
    let direct = desk.slack.post_as(&desk.ana, &im, None, "help").unwrap();
    desk.until("an answer", || async { count(&im, Some(&direct), "such as:") == 1 }).await;

    let stranger = desk.slack.create_user("stranger", "A stranger");
    desk.slack.add_member(&desk.channel, &stranger).unwrap();
    desk.patch_repo(serde_json::json!({"spec": {"access": {"users": [desk.ana]}}})).await;
    desk.until("the gateway knows", || async {
        !desk.gateway().context.repo(&desk.place.team, "shop").unwrap().spec.access.users.is_empty()
    })
    .await;
    let busy = CallFault::Error("service_unavailable".to_owned());
    desk.slack.fail_next("chat.postEphemeral", 1, &busy);
    let other = desk.slack.post_as(&stranger, &desk.channel, None, "do this").unwrap();
    let told = || {
        let said = slack.messages(&place, Some(&other)).into_iter();
        said.filter(|one| one.ephemeral_for.as_ref() == Some(&stranger)).count()
    };
    desk.until("a line", || async { told() == 1 }).await;
    desk.gateway.take().unwrap().stop().await;
    let said = [(&place, &root), (&im, &direct)];
    let said = said.map(|(channel, root)| count(channel, Some(root), "such as:"));
    assert_eq!((said, told()), ([1, 1], 1));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_the_app_is_shown_what_to_ask() {
    let desk = Desk::start().await;
    desk.reachable().await;
    let im = desk.slack.open_assistant(&desk.ana);
    desk.until("prompts", || async { !desk.slack.prompts(&im).is_empty() }).await;
    let prompts = desk.slack.prompts(&im);
    assert!(prompts.iter().all(|prompt| prompt.starts_with("help ")), "{prompts:?}");
    let asked = desk.slack.post_as(&desk.ana, &im, None, &prompts[0]).unwrap();
    let answered = || {
        let said = desk.slack.messages(&im, Some(&asked));
        said.iter().any(|one| one.text.contains("such as:"))
    };
    desk.until("help", || async { answered() }).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_calls_everybody_who_took_part_once() {
    let desk = Desk::start().await;
    let root = desk.said("make it better").await;
    let people: Vec<String> = (0..6)
        .map(|n| {
            let user = desk.slack.create_user(&format!("u{n}"), &format!("User {n}"));
            desk.slack.add_member(&desk.channel, &user).unwrap();
            user
        })
        .collect();
    for user in people.iter().chain(&people[5..]) {
        let ts = desk.slack.post_as(user, &desk.channel, Some(&root), "and faster").unwrap();
        desk.slack.wait_acked(&ts, PATIENCE).await.unwrap();
    }
    let pm = desk.caller(&root, "pm").await;
    let mut n = 0;
    let text = loop {
        // A stored mark is seen a moment later by the call that asks.
        n += 1;
        let message = PostMessage { asks: true, ..post(&format!("q{n}"), "Which one?") };
        let asked = desk.service().post(&pm, &message, None).await.unwrap().ts.to_string();
        let text = desk.slack.message(&desk.channel, &asked).unwrap().text;
        if n > 50 || people[1..].iter().all(|user| text.contains(&format!("<@{user}>"))) {
            break text;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for user in people[1..].iter().chain([&desk.ana]) {
        assert_eq!(text.matches(&format!("<@{user}>")).count(), 1, "{user}: {text}");
    }
    assert!(!text.contains(&format!("<@{}>", people[0])), "the latest five: {text}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_of_any_length_loses_its_buttons_when_it_is_answered() {
    let desk = Desk::start().await;
    let root = desk.said("what did we learn?").await;
    let pm = desk.caller(&root, "pm").await;
    let learnings = (1..=5).map(|n| format!("{n} {}", "word ".repeat(80))).collect();
    let text = "word ".repeat(700);
    let message = PostMessage { learnings, ..post("l", &text) };
    let asked = desk.service().post(&pm, &message, None).await.unwrap().ts.to_string();
    let whole = desk.slack.message(&desk.channel, &asked).unwrap().text;
    assert!(whole.chars().count() > 4000, "{}", whole.len());
    desk.slack.click(&desk.ana, &desk.channel, &asked, "learning:2:reject").unwrap();
    desk.shows(&asked, "Rejected by").await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_any_length_is_one_message_that_is_kept_up_to_date() {
    let desk = Desk::start().await;
    let root = desk.said("hello").await;
    let key = desk.caller(&root, "pm").await.key();
    let row = |n: usize, state: &str| {
        let place = format!("https://git.example.org/acme/shop/pull/{n}");
        format!("- [#{n}]({place}) {state}, number {n} of the titles that go on for a while")
    };
    let steps = [(60, "waits"), (2, "waits"), (60, "tested"), (400, "merged"), (3, "merged")];
    for (count, state) in steps {
        let list: Vec<String> = (1..=count).map(|n| row(n, state)).collect();
        desk.service().show(&key, "list", &list.join("\n")).await.unwrap();
        let said = desk.slack.messages(&desk.channel, Some(&root));
        let shown: Vec<_> = said.iter().filter(|one| one.shown.contains("of the titles")).collect();
        assert_eq!(shown.len(), 1, "{count} {state}: {said:?}");
        let text = &shown[0].shown;
        assert!(text.contains(&format!("{state}, number {} of", count.min(60))), "{text}");
        assert_eq!(text.contains("more lines"), count == 400, "{text}");
    }
    // One that Slack lets nobody edit any more makes room for another one.
    let closed = CallFault::Error("edit_window_closed".to_owned());
    for count in [2, 60] {
        desk.slack.fail_next("chat.update", 1, &closed);
        let list: Vec<String> = (1..=count).map(|n| row(n, "closed")).collect();
        desk.service().show(&key, "list", &list.join("\n")).await.unwrap();
        let said = desk.slack.messages(&desk.channel, Some(&root));
        let shown: Vec<_> = said.iter().filter(|one| one.shown.contains("of the titles")).collect();
        assert_eq!(shown.len(), 1, "{count}: {said:?}");
        assert!(shown[0].shown.contains("closed, number 2 of"), "{}", shown[0].shown);
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_shown_whole() {
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    let pm = desk.caller(&root, "pm").await;
    let plan = ask("p", &"step ".repeat(700), AskedDecision::Plan);
    let asked = desk.service().post(&pm, &plan, None).await.unwrap().ts.to_string();
    let blocks = desk.slack.message(&desk.channel, &asked).unwrap().blocks;
    let sections: Vec<_> = blocks.iter().filter(|block| block["type"] == "section").collect();
    assert!(sections.len() > 1 && sections.iter().all(|one| one["expand"] == true), "{blocks:?}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_becomes_a_link_that_nobody_wrote_as_one() {
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    let pm = desk.caller(&root, "pm").await;
    let text = "Ask @codebutler.pm about main.rs, and see https://example.org/a_b.";
    let told = desk.service().post(&pm, &post("t", text), None).await.unwrap().ts.to_string();
    let asking = ask("p", text, AskedDecision::Plan);
    let plan = desk.service().post(&pm, &asking, None).await.unwrap().ts.to_string();
    let meant = "Ask @codebutler.pm about main.rs, and see <https://example.org/a_b>.";
    let said = |ts: &str| desk.slack.message(&desk.channel, ts).unwrap();
    let shown = |ts: &str| said(ts).blocks[0]["text"]["text"].as_str().unwrap().to_owned();
    assert_eq!(said(&told).text, meant);
    assert!(said(&plan).text.starts_with(meant), "{}", said(&plan).text);
    assert!(shown(&plan).starts_with(meant), "{}", shown(&plan));
    desk.slack.click(&desk.ana, &desk.channel, &plan, "plan:approve").unwrap();
    desk.shows(&plan, "Approved by").await;
    assert!(said(&plan).text.starts_with(meant), "{}", said(&plan).text);
    assert!(shown(&plan).starts_with(meant), "{}", shown(&plan));
    desk.stop().await;
}

/// A text with two pieces of long code.
fn long_code() -> String {
    let code = |line: &str| format!("```rust\n{}```\n", format!("{line}\n").repeat(30));
    format!("First:\n{}Second:\n{}Which one?", code("let a = 1;"), code("let b = 2;"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_under_files_comes_after_them_and_they_in_their_order() {
    let desk = Desk::start().await;
    let root = desk.said("show me").await;
    let pm = desk.caller(&root, "pm").await;
    let asked = ask("p", &long_code(), AskedDecision::Plan);
    desk.service().post(&pm, &asked, None).await.unwrap();
    let messages = desk.slack.messages(&desk.channel, Some(&root));
    let what = |message: &MessageView| match &message.files[..] {
        [file] => file.name.rsplit_once('-').unwrap().1.to_owned(),
        _ => message.text.chars().take(6).collect(),
    };
    let order: Vec<String> = messages.iter().map(what).collect();
    assert_eq!(order[1..], ["1.rs", "2.rs", "First:"], "{messages:?}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_slack_forgets_to_share_is_said_in_words() {
    let desk = Desk::start().await;
    let root = desk.said("show me").await;
    let pm = desk.caller(&root, "pm").await;
    desk.slack.fail_next("files.share", 2, &CallFault::LostReply);
    let sent = desk.service().post(&pm, &post("t", &long_code()), None).await.unwrap();
    let message = desk.slack.message(&desk.channel, sent.ts.as_str()).unwrap();
    assert!(message.text.contains("let a = 1;") && message.text.contains("let b = 2;"));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_stops_whatever_it_is_called_and_slashes_are_never_sent() {
    let desk = Desk::start().await;
    let root = desk.said("please plan").await;
    desk.slack.react_as(&desk.ana, &desk.channel, &root, "raised_hand").unwrap();
    let reactions = desk.slack.message(&desk.channel, &root).unwrap().reactions;
    assert!(reactions.iter().any(|one| one.name == "hand"), "{reactions:?}");
    let made_up = desk.slack.react_as(&desk.ana, &desk.channel, &root, "pause_button");
    assert!(matches!(made_up, Err(SlackError::Refused(code)) if code == "invalid_name"));
    let slashed = desk.slack.post_as(&desk.ana, &desk.channel, Some(&root), "/pm strong");
    let Err(SlackError::Refused(why)) = slashed else { panic!("{slashed:?}") };
    assert_eq!(why, "/pm is not a valid command");
    desk.stop().await;
}

/// Checks that everything that looks like an emoji in the sources is one.
#[test]
fn every_emoji_that_is_written_is_one_of_slacks() {
    let root = Path::new(codebutler_testbed::FOLDER).join("..");
    let mut unknown = Vec::new();
    let mut seen = 0;
    for part in ["operator/gateway", "seeds/roles", "charts/codebutler/files/roles"] {
        for entry in walk(&root.join(part)) {
            let text = std::fs::read_to_string(&entry).unwrap_or_default();
            for name in text.split('"').filter_map(emoji) {
                seen += 1;
                if canonical_emoji(name).as_deref() != Some(name) && name != "raised_hand" {
                    unknown.push(format!("{}: {name}", entry.display()));
                }
            }
        }
    }
    assert!(seen > 20 && unknown.is_empty(), "{seen} {unknown:?}");
}

/// `:name:` at the beginning of a literal.
fn emoji(literal: &str) -> Option<&str> {
    let (name, rest) = literal.strip_prefix(':')?.split_once(':')?;
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-".contains(c);
    let ends = rest.is_empty() || rest.starts_with([' ', ':']);
    (ends && !name.is_empty() && name.chars().all(named)).then_some(name)
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => walk(&path),
            path => vec![path],
        })
        .collect()
}
