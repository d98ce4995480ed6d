//! Further situations in a thread: a question with answers to choose from, a command that waits, a cap that is
//! reached, a long answer, a closed thread.

use std::collections::BTreeMap;

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{ModelScript, RoleScript, ScriptStep, ScriptedConversation};
use serde_json::json;

use super::chromium::Browser;
use super::{DESKTOP, picture, shows};
use crate::support::{Setup, Team};

const LONG: &str = "## What I found
The total is rounded **twice**, see [the rule](https://docs.acme.dev/money).

1. in the cart
   - once per line
   - and once for all lines
2. in the invoice

| place | rounds | by |
|---|---|---|
| cart | twice | 0.01 |
| invoice | once | 0.01 |

> Only the invoice should round.";

fn talk(about: &str, steps: Vec<ScriptStep>) -> ScriptedConversation {
    ScriptedConversation { thread: Some(about.into()), steps }
}

fn script() -> ModelScript {
    let lines = ["let total = round(total);"; 30].join("\n");
    let choice = json!({
        "message": "Is this a bug, or do you wish for something new?",
        "waitForReply": true,
        "choices": ["It is a bug", "I wish for something new"],
    });
    let look = ScriptStep::tool("Glob", json!({"pattern": "*"})).costing(900, 20, "0.6");
    let pm = vec![
        talk("odd prices", vec![ScriptStep::tool("SendMessage", choice)]),
        talk("look around", vec![look, ScriptStep::say("Two files.").costing(900, 20, "0.6")]),
        talk(
            "explain",
            vec![ScriptStep::say(&format!("{LONG}\n\n```rust\n{lines}\n```\nThat is all."))],
        ),
        talk(
            "never mind",
            vec![
                ScriptStep::say("Tell me when you need me."),
                ScriptStep::tool("CloseThread", json!({"summary": "Nothing was to be done."})),
            ],
        ),
    ];
    let tidy = ScriptStep::tool("Bash", json!({"command": "vercel --prod; rm -rf src; ls"}));
    let coder = vec![talk("tidy up", vec![tidy])];
    let roles = [("pm", pm), ("coder", coder)];
    let roles = roles.map(|(role, conversations)| (role.to_owned(), RoleScript { conversations }));
    ModelScript(BTreeMap::from(roles))
}

async fn look(team: &Team, browser: &mut Browser, name: &str, root: &str, text: &str) {
    team.message(root, text).await;
    let thread = format!("{}/{root}", team.stack.channel);
    browser.run(&format!("(location.hash = '{thread}', location.reload())")).await;
    browser.until(&format!("document.querySelector('#replies') && {}", shows(text))).await;
    picture(browser, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_else_that_people_meet_fits_on_a_phone() {
    let Some(mut browser) = Browser::start().await else { return };
    let team = Setup::new(script())
        .repo(|repo| repo.limits.budget.per_thread = Some(NanoUsd(1_000_000_000)))
        .start()
        .await;
    browser.resize(DESKTOP).await;
    browser.open(&team.stack.slack.page_url()).await;

    let choice = team.says("ana", None, "the shop shows odd prices");
    look(&team, &mut browser, "6-choice", &choice, "Is this a bug").await;
    let command = team.says("ana", None, "@codebutler.coder tidy up");
    look(&team, &mut browser, "7-command", &command, "May I do this?").await;
    let budget = team.says("ana", None, "look around");
    look(&team, &mut browser, "8-budget", &budget, "waits: ").await;
    let long = team.says("ana", None, "explain the rounding");
    look(&team, &mut browser, "9-long-answer", &long, "That is all.").await;
    let closed = team.says("ana", None, "never mind");
    team.message(&closed, "Tell me when").await;
    team.says("ana", Some(&closed), "close");
    team.thread_when(&closed, "the thread to close", |thread| {
        thread.spec.state == codebutler_crds::thread::ThreadState::Closed
    })
    .await;
    team.says("ana", Some(&closed), "one more thing");
    look(&team, &mut browser, "10-closed", &closed, "This thread is closed").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    team.stop().await;
}
