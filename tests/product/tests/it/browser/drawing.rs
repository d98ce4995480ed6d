//! The artist's images from the request to the merge: the shipped scenarios, and the browser looks at what they leave
//! on the thread's page and in the merged commit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::stack::outside::repository_dir;
use serde_json::json;

use super::chromium::Browser;
use super::{DESKTOP, picture};
use crate::chatting::KeptScenario;

/// A scenario that ends with a merged image.
struct DrawnCase {
    scenario: &'static str,
    repository: &'static str,
    /// Path that people have said yes to.
    path: &'static str,
    media_type: &'static str,
    /// Number of images in the thread, the changed one included.
    shown: usize,
}

const CASES: [DrawnCase; 2] = [
    DrawnCase {
        scenario: "images",
        repository: "reader",
        path: "public/logo.png",
        media_type: "image/png",
        shown: 2,
    },
    // The second of two is changed, and the icon is made of the changed one.
    DrawnCase {
        scenario: "favicon",
        repository: "site",
        path: "favicon.ico",
        media_type: "image/x-icon",
        shown: 3,
    },
];

const IMAGES: &str = "[...document.querySelectorAll('.step img')]";

#[tokio::test(flavor = "multi_thread")]
async fn drawn_and_changed_images_are_seen_from_the_request_to_the_merge() {
    let mut browser = Browser::start().await;
    for case in CASES {
        let folder = codebutler_testbed::FOLDER;
        let played =
            KeptScenario::play(&format!("{folder}/scenarios/{}.yaml", case.scenario)).await;
        let git =
            BareRepository::at(repository_dir(&played.folder().join("stack"), case.repository));
        let merged = git.show("main", case.path).await.unwrap();
        if let Some(browser) = &mut browser {
            let images = see_thread(browser, &played.pages(), &case).await;
            see_file(browser, &merged, case.media_type).await;
            let last = images.len() - 1;
            assert!(!images[..last].contains(&images[last]), "the last one is not like the others");
            // An icon has the chosen one in several sizes.
            if case.media_type == "image/png" {
                assert_eq!(merged, images[1], "the second is the one that was chosen");
            }
        }
        played.end().await;
    }
    let Some(browser) = browser else { return };
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.close().await;
}

/// Looks at the page of the only thread; returns the bytes of its images.
async fn see_thread(browser: &mut Browser, pages: &str, case: &DrawnCase) -> Vec<Vec<u8>> {
    browser.resize(DESKTOP).await;
    browser.open(pages).await;
    browser.until("document.querySelector('tbody th a')").await;
    browser.run("document.querySelector('tbody th a').click()").await;
    browser.until("document.querySelector('#now')?.textContent.includes('#1 merged')").await;
    // Images of a run that is folded, or far below, are loaded when somebody gets to them.
    let DrawnCase { shown, path, .. } = case;
    let unfold = "document.querySelectorAll('details').forEach(one => one.open = true)";
    let next = format!("{IMAGES}.find(image => image.naturalWidth === 0)");
    let seen = format!("{IMAGES}.length === {shown} && {next} === undefined");
    browser.until(&format!("({unfold}, {next}?.scrollIntoView(), {seen})")).await;
    let named = format!("{IMAGES}.every(image => image.alt.length > 0)");
    assert_eq!(browser.value(&named).await, json!(true));
    let says = format!("document.body.textContent.includes('{path}')");
    assert_eq!(browser.value(&says).await, json!(true));
    picture(browser, &format!("22-{}", case.scenario)).await;
    let bytes = format!(
        "Promise.all({IMAGES}.map(async (image) => {{\
             const answer = await fetch(image.src);\
             return [...new Uint8Array(await answer.arrayBuffer())];\
         }}))"
    );
    serde_json::from_value(browser.value(&bytes).await).unwrap()
}

/// Has the browser show a file of the repository by itself.
async fn see_file(browser: &mut Browser, bytes: &[u8], media_type: &str) {
    browser.open("about:blank").await;
    let data = STANDARD.encode(bytes);
    let width = format!(
        "new Promise((done) => {{\
             const image = new Image();\
             image.onload = () => done(image.naturalWidth);\
             image.onerror = () => done(0);\
             image.src = 'data:{media_type};base64,{data}';\
         }})"
    );
    let width = browser.value(&width).await;
    assert!(width.as_u64().is_some_and(|width| width > 0), "{media_type}: {width}");
}
