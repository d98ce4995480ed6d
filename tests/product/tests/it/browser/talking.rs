//! People write on a thread's page, and look at what was built: the reply form, a question's buttons, a page
//! before and after its change, a branch's lines in colours.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::PagesAccess;
use serde_json::json;

use super::DESKTOP;
use super::chromium::Browser;
use super::watching::looked_at;
use crate::support::{Setup, Team, asks};

async fn page_of(team: &Team, root: &str) -> String {
    let name = team.thread(root).await.metadata.name.unwrap();
    format!("/{}/{name}", team.stack.place.team)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_reply_and_decide_on_the_page() {
    let Some(mut browser) = Browser::start().await else { return };
    let script = ModelScript::of(
        "pm",
        vec![asks("Plan: raise the price.", "plan"), ScriptStep::say("Noted on the page.")],
    )
    .and("coder", vec![ScriptStep::say("Raised.")]);
    let team = Setup::new(script)
        .pages(PagesAccess::Slack)
        .repo(|repo| repo.access.users.clear())
        .start()
        .await;
    let root = team.says("ana", None, "the price is too low");
    team.message(&root, "Plan: raise").await;
    team.settled(&root, "pm").await;
    let (page, pages) = (page_of(&team, &root).await, team.stack.metrics.pages.unwrap());
    team.stack.slack.sit_down(&team.stack.users["ben"], None);
    browser.resize(DESKTOP).await;
    browser.open(&format!("http://{pages}/sign-in?to={page}")).await;
    browser.until("document.querySelectorAll('#asks button').length === 3").await;
    let who = "document.querySelector('.site form span').textContent";
    assert_eq!(browser.value(who).await, json!("ben"));
    looked_at(&mut browser, "16-question").await;

    // By keyboard, as anybody writes.
    browser.run("document.querySelector('#reply textarea').focus()").await;
    browser.run("document.execCommand('insertText', false, '@codebutler.pm is <b> meant?')").await;
    let focused = "document.activeElement.matches('#reply button')";
    browser.press_until("Tab", 3, focused).await;
    browser.key("Enter").await;
    team.message(&root, "Noted on the page.").await;
    let says = |text: &str| format!("document.body.textContent.includes('{text}')");
    browser.until(&says("is <b> meant?")).await;
    assert_eq!(browser.value("document.querySelector('#reply textarea').value").await, json!(""));
    let posted = team.messages(&root).into_iter().find(|one| one.text.contains("meant?")).unwrap();
    assert_eq!(posted.sender.name, "ben (on the page)");

    browser.run("document.querySelector('#asks button[value=\"plan:approve\"]').click()").await;
    team.message(&root, "Coder goes on: the plan is approved").await;
    browser.until("document.querySelectorAll('#asks button').length === 0").await;
    looked_at(&mut browser, "17-decided").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    team.stop().await;
}

const PAGE: &str = "<!doctype html>\n<title>Prices</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n\
    <p class=\"price\">12.90</p>\n";
const SERVE: &str = "/usr/bin/python3 -m http.server 38419 --bind 127.0.0.1";
const SERVED: &str = "for i in $(seq 100); do (: < /dev/tcp/127.0.0.1/38419) 2>/dev/null && echo serves && break; \
    sleep 0.1; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_seen_before_and_after_and_in_colours() {
    let Some(mut browser) = Browser::start().await else { return };
    let look = |moment: &str| {
        let url = "http://127.0.0.1:38419/";
        ScriptStep::tool("Screenshot", json!({"url": url, "moment": moment, "sizes": ["phone"]}))
    };
    let edits = json!([{"old": "9px; /* grey */", "new": "32px; /* \"large\" */"}]);
    let steps = vec![
        ScriptStep::tool("Bash", json!({"command": SERVE, "background": true})),
        ScriptStep::tool("Bash", json!({"command": SERVED})),
        look("before"),
        ScriptStep::tool("Read", json!({"path": "style.css"})),
        ScriptStep::tool("Edit", json!({"path": "style.css", "edits": edits})),
        look("after"),
        ScriptStep::tool("GitCommit", json!({"message": "Make the price readable"})),
        ScriptStep::tool("GitPush", json!({})),
    ];
    let plan = ModelScript::of("pm", vec![asks("Plan: 32 pixels.", "plan")]);
    let team = Setup::new(plan.and("coder", steps))
        .file("index.html", PAGE)
        .file("style.css", ".price { font-size: 9px; /* grey */ }\n")
        .start()
        .await;
    let root = team.says("ana", None, "make the price readable");
    let plan = team.message(&root, "Plan: 32 pixels.").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "before and after the change").await;
    team.message(&root, "Nobody goes on").await;
    let (page, pages) = (page_of(&team, &root).await, team.stack.metrics.pages.unwrap());
    browser.resize(DESKTOP).await;
    browser.open(&format!("http://{pages}{page}")).await;
    let loaded =
        "[...document.querySelectorAll('main img')].filter(i => i.naturalWidth > 0).length";
    browser.until(&format!("{loaded} >= 2")).await;
    let named = "[...document.querySelectorAll('main img')].every(i => i.alt.length > 0)";
    assert_eq!(browser.value(named).await, json!(true));
    looked_at(&mut browser, "18-compared").await;

    browser.open(&format!("http://{pages}{page}/changes")).await;
    browser.until("document.querySelectorAll('.diff .add .sc').length === 1").await;
    let text = "document.querySelector('.diff td.add').textContent";
    assert_eq!(browser.value(text).await, json!(".price { font-size: 32px; /* \"large\" */ }"));
    looked_at(&mut browser, "19-changes").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    team.stop().await;
}
