//! Pictures of pages: taken in the sandbox of commands, kept beside the worktree, and shown to who asked.

use std::io::Write as _;

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use codebutler_agent::tool_args::ReadArgs;
use codebutler_agent::toolbox::protocol::{
    ImageRequest, ScreenshotReply, ToolboxReply, ToolboxRequest,
};
use codebutler_browser::{ColorScheme, ScreenSize, find_browser};
use serde_json::json;

use crate::toolbox::{Box, start, start_with};
use crate::world::{World, calls, in_order, results, says};

async fn serve() -> u16 {
    serve_page("<title>Shop</title><h1>Prices</h1>").await
}

async fn serve_page(text: &'static str) -> u16 {
    let page = get(move || async move { Html(text) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", page)).await });
    port
}

fn has_browser() -> bool {
    let found = find_browser(&std::env::var_os("PATH").unwrap_or_default()).is_some();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: no Chromium is installed here");
    }
    found
}

async fn ask(t: &Box, url: &str, name: &str) -> ToolboxReply {
    let frames = vec![(ScreenSize::Phone, ColorScheme::Dark)];
    let (url, name) = (url.into(), name.into());
    let wanted = ImageRequest::Screenshot { url, name, moment: None, frames };
    t.toolbox.ask(ToolboxRequest::Image(wanted)).await.unwrap()
}

async fn take(t: &Box, url: &str) -> ScreenshotReply {
    match ask(t, url, "before").await {
        ToolboxReply::Screenshot(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_server_beside_it_is_kept_where_no_commit_takes_it() {
    if !has_browser() {
        return;
    }
    let port = serve().await;
    for flags in [&[][..], &["--worktree", "read-only", "--role", "reviewer"]] {
        let t = start_with(flags).await;
        let reply = take(&t, &format!("http://localhost:{port}/")).await;
        assert!(reply.page.contains("status 200, title \"Shop\""), "{}", reply.page);
        let path = reply.pictures[0].shown.clone();
        assert!(path.ends_with("/screenshots/before-phone-dark.png"), "{path}");
        let read = ReadArgs { path, ..ReadArgs::default() };
        let shown = t.toolbox.ask(ToolboxRequest::Read(read)).await.unwrap();
        assert!(matches!(&shown, ToolboxReply::Picture(one) if one.data == reply.pictures[0].data));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_pages_of_this_pod_are_shown() {
    let t = start().await;
    for elsewhere in ["http://example.com/", "file:///etc/passwd", "nonsense"] {
        let reply = ask(&t, elsewhere, "x").await;
        assert!(
            matches!(&reply, ToolboxReply::Refused(why) if why.contains("http://localhost:3000")
            || why.contains("is not this pod")),
            "{elsewhere}: {reply:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_shown_the_pictures_that_it_asked_for() {
    if !has_browser() {
        return;
    }
    let url = format!("http://127.0.0.1:{}/", serve().await);
    let wanted = json!({"url": url, "name": "after", "sizes": ["desktop"], "schemes": ["light"]});
    let mut world =
        World::new(in_order(vec![calls(&[("Screenshot", wanted)]), says("Seen.")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools.push("Screenshot".to_owned());
        inner.say("please make the page blue", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let answer = results(&inner.asked[1]).concat();
    assert!(answer.contains("after-desktop-light.png"), "{answer}");
    let shown =
        inner.asked[1].iter().any(|message| message.to_string().contains("data:image/png;base64,"));
    assert!(shown, "{:?}", inner.asked[1].last());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_shown_a_change_before_and_after_and_nothing_where_none_is_seen() {
    if !has_browser() {
        return;
    }
    let url = |port: u16, path: &str| format!("http://127.0.0.1:{port}/{path}");
    let (old, new) = (serve().await, serve_page("<title>Shop</title><h1>Sale!</h1>").await);
    let shoot = |url: String, moment: &str| ("Screenshot", json!({"url": url, "moment": moment}));
    let answers = vec![
        calls(&[shoot(url(old, ""), "before")]),
        calls(&[shoot(url(new, "missing"), "before")]),
        calls(&[shoot(url(old, ""), "after")]),
        calls(&[shoot(url(new, ""), "after")]),
        calls(&[shoot(url(new, "?new=1"), "after")]),
        says("Done."),
    ];
    let mut world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools.push("Screenshot".to_owned());
        inner.say("please make the page louder", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let told = |turn: usize| (*results(&inner.asked[turn]).last().unwrap()).to_owned();
    assert!(told(1).contains("Kept as the page before"), "{}", told(1));
    assert!(told(2).contains("not there yet"), "{}", told(2));
    assert!(
        told(3).contains("No pixel differs") && told(3).contains("phone, light"),
        "{}",
        told(3)
    );
    assert!(told(4).contains("People see them") && told(4).contains("pull request"), "{}", told(4));
    assert!(told(5).contains("stands alone"), "{}", told(5));
    let [pair, alone] = &*inner.comparisons else { panic!("{}", inner.comparisons.len()) };
    assert_eq!((pair.page.as_str(), pair.views.len()), ("/", 2));
    assert!(pair.views.iter().all(|view| view.before.as_ref().is_some_and(|b| *b != view.after)));
    assert_eq!(alone.page, "/?new=1");
    assert!(alone.views.iter().all(|view| view.before.is_none()));
    assert_ne!(pair.key, alone.key);
}
