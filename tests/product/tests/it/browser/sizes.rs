//! Pages of nothing at all, and of a great deal.

use std::fmt::Write as _;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use super::DESKTOP;
use super::chromium::Browser;
use super::watching::looked_at;
use crate::support::{Setup, Team};

const STEPS: u64 = 5000;

/// A history of a thread that was worked on for long, as the gateway keeps it.
fn history() -> String {
    let began = 1_700_000_000_000_u64;
    let mut all = String::new();
    for n in 1..=STEPS {
        let mut line = json!({
            "v": 1, "at": began + n * 1000, "source": "agent/coder/0a", "seq": n, "role": "coder",
        });
        let event = match n % 10 {
            1 => {
                json!({"event": "answer", "text": format!("## Part {n}\n\n1. `src/price.txt`\n2. **done**")})
            }
            5 => {
                json!({"event": "tool", "tool": "Edit", "output": "@@ -1 +1 @@\n-1\n+2\n", "ok": true,
                "arguments": "{\"path\":\"src/price.txt\"}"})
            }
            _ => json!({"event": "tool", "tool": "Bash", "output": "a line of output\n".repeat(10),
                "arguments": "{\"command\":\"make\"}", "ok": n % 7 != 0, "exitCode": n % 7}),
        };
        if let (Some(line), Some(event)) = (line.as_object_mut(), event.as_object()) {
            line.extend(event.clone());
        }
        let _ = writeln!(all, "{line}");
    }
    all
}

/// Words of a script that runs from the right begin there, and turn nothing of what stands beside them.
async fn reads_from_the_right(browser: &mut Browser, team: &Team, pages: &str) {
    let path = format!("{}/right-1", team.stack.place.team);
    let folder = team.stack.dir.join("history").join(&path);
    std::fs::create_dir_all(&folder).unwrap();
    let line = json!({
        "v": 1, "at": 1_700_000_000_000_u64, "source": "gateway", "event": "message",
        "ts": "1700000000.000100", "author": {"kind": "user", "id": "U0RIGHT"},
        "text": "שלום עולם",
    });
    std::fs::write(folder.join("events.jsonl"), format!("{line}\n")).unwrap();
    browser.open(&format!("{pages}/{path}")).await;
    browser.until("document.querySelector('.message .prose p') !== null").await;
    for (name, place) in [("title", "h1"), ("words", ".message .prose p")] {
        let begins = format!(
            "(() => {{ const own = document.querySelector('{place}'), text = document.createRange(); \
             text.selectNodeContents(own); const right = (one) => one.getBoundingClientRect().right; \
             return Math.abs(right(own) - right(text)) < 2 }})()"
        );
        assert_eq!(browser.value(&begins).await, json!(true), "{name}");
    }
    let beside = "document.querySelector('.latest a').getBoundingClientRect().right\
                  <= document.querySelector('.latest small').getBoundingClientRect().left + 1";
    assert_eq!(browser.value(beside).await, json!(true), "the time stands behind the words");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_nothing_and_of_5_000_steps_are_looked_at() {
    let Some(mut browser) = Browser::start().await else { return };
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let pages = format!("http://{}", team.stack.metrics.pages.unwrap());
    browser.resize(DESKTOP).await;
    for (path, name) in [("/", "16-no-threads"), ("/costs", "17-no-costs")] {
        browser.open(&format!("{pages}{path}")).await;
        browser.until("document.querySelector('main, body > *') !== null").await;
        looked_at(&mut browser, name).await;
    }
    let path = format!("{}/long-1", team.stack.place.team);
    let folder = team.stack.dir.join("history").join(&path);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("events.jsonl"), history()).unwrap();
    let newest = format!("document.querySelector('#n{STEPS}') !== null");
    let oldest = "document.querySelector('#n1') !== null".to_owned();
    let list = "document.querySelectorAll('tbody tr').length === 1".to_owned();
    for (path, name, shown) in [
        (format!("/{path}"), "18-long", newest),
        (format!("/{path}?from=1"), "19-its-beginning", oldest),
        ("/".to_owned(), "20-one-thread", list),
    ] {
        browser.open(&format!("{pages}{path}")).await;
        browser.until(&shown).await;
        looked_at(&mut browser, name).await;
    }
    reads_from_the_right(&mut browser, &team, &pages).await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The browser itself complains of an answer that is an error.
    browser.open(&format!("{pages}/{}/gone-1", team.stack.place.team)).await;
    browser.until("document.body.textContent.includes('There is no such page')").await;
    looked_at(&mut browser, "21-no-page").await;
    browser.close().await;
    team.stop().await;
}
