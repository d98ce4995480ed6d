//! A thread is watched in a real browser: on a desktop and a phone, live, and without scripts running
//! that came with a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_testbed::models::{
    ModelScript, RoleScript, ScriptStep, ScriptedConversation, TextMatch,
};
use kube::api::ListParams;
use serde_json::json;

use super::chromium::Browser;
use super::{DESKTOP, PHONE, accessible, picture};
use crate::support::{Setup, asks};

/// Looks at the page in all sizes, in light and in dark, and as somebody who does not see it.
pub(super) async fn looked_at(browser: &mut Browser, name: &str) {
    for scheme in ["dark", "light"] {
        browser.prefer(scheme).await;
        picture(browser, &format!("{name}-{scheme}")).await;
        for (size, kind) in [(PHONE, "phone"), (DESKTOP, "desktop")] {
            browser.resize(size).await;
            accessible::check(browser, &format!("{name} on a {kind} in {scheme}")).await;
        }
    }
}

/// Browsers allow six connections to a server over HTTP/1.1.
const TABS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn ten_tabs_stay_live_over_http_1() {
    let Some(mut browser) = Browser::start().await else { return };
    let slow = ScriptStep::tool("Bash", json!({"command": "until [ -e go ]; do sleep 0.2; done"}));
    let write = ScriptStep::tool("Bash", json!({"command": "touch go"}));
    let script = ModelScript::of("coder", vec![slow, ScriptStep::say("All of you see this.")])
        .and("reviewer", vec![write, ScriptStep::say("Begun.")]);
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "@codebutler.coder wait");
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page =
        format!("http://{}/{}/{name}", team.stack.metrics.pages.unwrap(), team.stack.place.team);
    let at_work = || async {
        let text = reqwest::get(&page).await.ok()?.text().await.ok()?;
        text.contains("is working").then_some(())
    };
    team.until("the coder to wait", at_work).await;
    browser.open(&page).await;
    let mut tabs = vec![browser.tab().await];
    for _ in 1..TABS {
        tabs.push(browser.open_tab(&page).await);
    }
    for tab in &tabs {
        browser.turn_to(tab);
        browser.until("document.querySelector('#steps').children.length > 0").await;
    }
    team.says("ana", Some(&root), "@codebutler.reviewer let it go on");
    for tab in &tabs {
        browser.turn_to(tab);
        browser
            .until("document.querySelector('#steps').textContent.includes('All of you see this.')")
            .await;
    }
    browser.close().await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_watched_in_a_browser() {
    let Some(mut browser) = Browser::start().await else { return };
    let hostile = "<img src=x onerror=\"document.title='taken'\">";
    let wide = "x".repeat(3000);
    let edits = json!([{"old": "price = 0.1", "new": "price = 0.2"}]);
    let script = ModelScript::of("pm", vec![ScriptStep::say("Plan: look.\n@codebutler.coder go")])
        .and(
            "coder",
            vec![
                ScriptStep::tool(
                    "Bash",
                    json!({"command": format!("echo \"{hostile} {wide}\"; sleep 5")}),
                ),
                ScriptStep::tool("Edit", json!({"path": "src/price.txt", "edits": edits})),
                ScriptStep::tool("Bash", json!({"command": "exit 3"})).costing(
                    12_345,
                    678,
                    "0.012345678",
                ),
                ScriptStep::say("Looked."),
            ],
        );
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, &format!("look at the price {hostile}"));
    let name = team.thread(&root).await.metadata.name.unwrap();
    let pages = team.stack.metrics.pages.unwrap();
    let page = format!("http://{pages}/{}/{name}", team.stack.place.team);
    team.until("the first line", || async {
        reqwest::get(&page).await.ok()?.status().is_success().then_some(())
    })
    .await;
    browser.resize(DESKTOP).await;
    browser.open(&page).await;
    // Opened before the coder is done: the rest comes by itself.
    let says =
        |text: &str| format!("document.querySelector('#steps').textContent.includes('{text}')");
    browser.until("document.querySelector('#steps [title=\"$0.012345678\"]') !== null").await;
    browser.until(&says("Looked.")).await;
    assert_eq!(browser.value("document.querySelectorAll('#steps img').length").await, json!(0));
    assert_eq!(browser.value("document.title === 'taken'").await, json!(false));
    // A run is one line that opens.
    let runs = "document.querySelectorAll('#steps > .run[data-role=coder]').length";
    assert_eq!(browser.value(runs).await, json!(1));
    let hidden = "document.querySelector('.run[data-role=coder] .step').checkVisibility()";
    assert_eq!(browser.value(hidden).await, json!(false));
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)").await;
    assert_eq!(browser.value("document.querySelectorAll('.del').length").await, json!(1));
    let twice = "new Set([...document.querySelectorAll('.step')].map(s => s.id)).size \
        === document.querySelectorAll('.step').length";
    assert_eq!(browser.value(twice).await, json!(true));
    looked_at(&mut browser, "11-thread").await;
    browser.open(&format!("http://{pages}/")).await;
    browser.until("document.querySelectorAll('tbody tr').length === 1").await;
    looked_at(&mut browser, "12-threads").await;
    browser.open(&format!("http://{pages}/costs")).await;
    browser.until("document.querySelector(`[title='$0.012345678']`) !== null").await;
    looked_at(&mut browser, "13-costs").await;
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    browser.close().await;
    team.stop().await;
}

/// A picture of four pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4zwAE/xkgFAAb8gP91pbyKwAAAABJRU5ErkJggg==";

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_seen_in_a_browser() {
    let Some(mut browser) = Browser::start().await else { return };
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("I see four pixels.")]))
        .start()
        .await;
    let png = STANDARD.decode(PNG).unwrap();
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    let hostile = "\"><img src=x onerror=alert(1)>.png";
    let (root, _) =
        team.stack.slack.upload_as(ana, channel, None, "what is this?", (hostile, &png)).unwrap();
    team.message(&root, "I see four pixels.").await;
    let name = team.thread(&root).await.metadata.name.unwrap();
    let pages = team.stack.metrics.pages.unwrap();
    browser.resize(DESKTOP).await;
    browser.open(&format!("http://{pages}/{}/{name}", team.stack.place.team)).await;
    browser.until("document.querySelector('.step img')?.naturalWidth === 2").await;
    assert_eq!(browser.value("document.querySelectorAll('.step img').length").await, json!(1));
    assert_eq!(browser.value("document.querySelector('.step img').alt").await, json!(hostile));
    looked_at(&mut browser, "15-picture").await;
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    browser.close().await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roadmap_is_watched_in_a_browser() {
    let Some(mut browser) = Browser::start().await else { return };
    let roadmap = "## 1. Cents\n- Acceptance criteria: the price is in cents\n\n## 2. Currency <img src=x \
        onerror=\"document.title='taken'\">\n- Depends on: 1\n- Acceptance criteria: the price names its currency\n";
    let thread = Some(TextMatch::Contains("Implement item `1`".to_owned()));
    let question = json!({"message": "Which cents?", "waitForReply": true});
    let steps = vec![ScriptStep::tool("SendMessage", question), asks("Plan: ten cents.", "plan")];
    let mut script = ModelScript::default();
    let conversations = vec![ScriptedConversation { thread, steps }];
    script.0.insert("pm".to_owned(), RoleScript { conversations });
    let team = Setup::new(script).file(".codebutler/roadmap.md", roadmap).start().await;
    let root = team.says("ana", None, "develop everything for $20");
    team.message(&root, "Develop the roadmap: 2 items").await;
    team.says("ana", Some(&root), "yes");
    let name = team.thread(&root).await.metadata.name.unwrap();
    let pages = team.stack.metrics.pages.unwrap();
    let page = format!("http://{pages}/{}/{name}/roadmap", team.stack.place.team);
    team.until("the roadmap's page", || async {
        reqwest::get(&page).await.ok()?.status().is_success().then_some(())
    })
    .await;
    browser.resize(DESKTOP).await;
    browser.open(&page).await;
    let says = |text: &str| format!("document.body.textContent.includes('{text}')");
    browser.until(&says("0 of 2 merged")).await;
    // Events that happen meanwhile are shown without a reload.
    browser.until(&says("a question in its thread waits")).await;
    browser.until(&says("of $20.00 spent")).await;
    assert_eq!(browser.value("document.querySelectorAll('main img').length").await, json!(0));
    assert_eq!(browser.value("document.title === 'taken'").await, json!(false));
    // It is heard, and not asked for.
    let fetched = |end: &str| {
        let ends = format!("one.name.endsWith('/roadmap/{end}')");
        format!("performance.getEntriesByType('resource').filter((one) => {ends}).length")
    };
    assert_eq!(browser.value(&fetched("now")).await, json!(0));
    // A reader is not disturbed: news that came meanwhile are shown afterwards.
    browser.value("document.querySelector('#roadmap a').focus()").await;
    let table = "document.getElementById('roadmap').textContent";
    let held = browser.value(table).await;
    let items = team.stack.threads().list(&ListParams::default()).await.unwrap();
    let item = items.iter().find(|thread| thread.spec.item.is_some()).unwrap();
    let item = item.conversation().unwrap().ts.to_string();
    let now = || async { reqwest::get(format!("{page}/now")).await.ok()?.text().await.ok() };
    let before = now().await;
    team.says("ana", Some(&item), "Ten.");
    team.message(&item, "Plan: ten cents.").await;
    team.until("another table", || async { (now().await != before).then_some(()) }).await;
    let kept = "document.querySelector('#roadmap a:focus') !== null";
    assert_eq!(browser.value(kept).await, json!(true));
    assert_eq!(browser.value(table).await, held);
    browser.value("document.activeElement.blur()").await;
    browser.until(&format!("{table} !== {held}")).await;
    looked_at(&mut browser, "14-roadmap").await;
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    browser.close().await;
    team.stop().await;
}
