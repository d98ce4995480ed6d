//! The chat page in a real browser: the bugfix from the first message to the merge, on a desktop and
//! on a phone, with screenshots below `target/screenshots`.

mod accessible;
mod chromium;
mod drawing;
mod situations;
mod sizes;
mod talking;
mod watching;

use std::path::PathBuf;

use serde_json::json;

use self::chromium::{Browser, Size};
use crate::chatting::Chat;

const DESKTOP: Size = Size { width: 1280, height: 800, phone: false };
const TABLET: Size = Size { width: 820, height: 1180, phone: true };
const PHONE: Size = Size { width: 390, height: 844, phone: true };

fn screenshots() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Takes a picture in all sizes. Nothing may be wider than a phone.
async fn picture(browser: &mut Browser, name: &str) {
    for (size, kind) in [(PHONE, "phone"), (TABLET, "tablet"), (DESKTOP, "desktop")] {
        browser.resize(size).await;
        let wide =
            browser.value("Math.max(0, document.documentElement.scrollWidth - innerWidth)").await;
        assert_eq!(wide, json!(0), "{name} on a {kind}");
        browser.screenshot(&screenshots().join(format!("{name}-{kind}.png"))).await;
    }
}

/// A button of the open thread.
fn button(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('#replies .row button')].find(b => b.textContent === '{text}')"
    )
}

fn shows(text: &str) -> String {
    format!("document.querySelector('#replies').textContent.includes('{text}')")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bugfix_from_message_to_merge_in_a_browser() {
    let Some(mut browser) = Browser::start().await else { return };
    let chat = Chat::start(&[]).await;
    browser.resize(DESKTOP).await;
    browser.open(&chat.line("chat page:")).await;

    // A suggestion goes into the composer, and Enter sends it.
    browser.until("document.querySelectorAll('#offers button').length === 3").await;
    picture(&mut browser, "1-start").await;
    browser.run("document.querySelector('#offers button').click()").await;
    let typed = "document.activeElement.id === 'channel-text' && document.activeElement.value";
    assert!(browser.value(typed).await.as_str().unwrap().contains("night shift is missing"));
    browser.key("Enter").await;
    browser
        .until("location.hash.includes('/') && document.activeElement.id === 'thread-text'")
        .await;
    assert_eq!(browser.value("document.querySelectorAll('#offers button').length").await, json!(2));

    browser.until(&button("Approve")).await;
    picture(&mut browser, "2-plan").await;
    // By keyboard alone: from the composer back to the newest message, and on to its buttons.
    browser.run("document.querySelector('#replies').lastElementChild.focus()").await;
    let focused = format!("document.activeElement === {}", button("Approve"));
    browser.press_until("Tab", 6, &focused).await;
    browser.key("Enter").await;
    browser.until(&format!("!{} && {}", button("Approve"), shows("Approved by"))).await;

    // A reload in the middle comes back to the same thread.
    browser.run("location.reload()").await;
    browser.until(&format!("document.querySelector('#replies') && {}", shows("Approved by"))).await;

    // Learnings that the team wants to remember are approved before the merge.
    browser.until(&format!("{} && {}", button("Approve"), shows("Retrospective"))).await;
    browser.run(&format!("{}.click()", button("Approve"))).await;

    browser.until(&button("Merge")).await;
    let names =
        "[...new Set([...document.querySelectorAll('#replies .name')].map(n => n.textContent))]";
    assert_eq!(
        browser.value(names).await,
        json!(["ana", "PM", "codebutler", "Coder", "Reviewer", "Lead"])
    );
    let icons =
        "[...document.querySelectorAll('#replies .icon')].every(i => i.textContent.length > 0)";
    assert_eq!(browser.value(icons).await, json!(true));
    picture(&mut browser, "3-merge").await;
    browser.run(&format!("{}.click()", button("Merge"))).await;
    browser.until(&format!("!{} && {}", button("Merge"), shows("Merged #1"))).await;
    picture(&mut browser, "4-merged").await;

    browser.key("Escape").await;
    browser.until("document.querySelector('#thread').hidden").await;
    picture(&mut browser, "5-channel").await;
    // The same from the inside: the README's picture.
    browser.open(&chat.line("at work:")).await;
    browser.until("document.querySelector('tbody th a')").await;
    browser.run("document.querySelector('tbody th a').click()").await;
    browser.until("document.querySelector('#now')?.textContent.includes('#1 merged')").await;
    browser.run("(document.querySelector('#plan').open = true, scrollTo(0, 0))").await;
    picture(&mut browser, "14-watched").await;
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
    let (code, rest) = chat.interrupt().await;
    assert_eq!(code, Some(0), "{rest}");
}
