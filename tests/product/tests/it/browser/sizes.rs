//! Pages of nothing at all, and of a great deal.

use std::fmt::Write as _;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use super::DESKTOP;
use super::chromium::Browser;
use super::watching::looked_at;
use crate::support::Setup;

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
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The browser itself complains of an answer that is an error.
    browser.open(&format!("{pages}/{}/gone-1", team.stack.place.team)).await;
    browser.until("document.body.textContent.includes('There is no such page')").await;
    looked_at(&mut browser, "21-no-page").await;
    browser.close().await;
    team.stop().await;
}
