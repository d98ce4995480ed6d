//! Pictures that the Chromium of this machine takes of a page of a server beside it.

// Helpers of tests are tests too.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used)]

use std::net::SocketAddr;

use axum::Router;
use axum::response::{Html, Redirect};
use axum::routing::get;
use base64::Engine as _;
use codebutler_browser::{
    BrowserError, ColorScheme, PageReport, ScreenSize, capture_page, find_browser, read_address,
};

const PAGE: &str = r#"<!doctype html><title>Shop</title><meta name=viewport content="width=device-width">
<style>body{margin:0;height:1200px;background:#fff} @media (prefers-color-scheme: dark){body{background:#000}}</style>
<script>console.error("no stock", 3); fetch("http://example.com/x").catch(() => {}); undefinedThing()</script>"#;

async fn serve() -> SocketAddr {
    let pages = Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/long", get(|| async { Html("<body style='height:9000px'>") }))
        .route("/broken", get(|| async { (http_status(500), Html("<title>Oops</title>")) }))
        .route("/away", get(|| async { Redirect::temporary("http://example.com/") }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, pages).await.unwrap() });
    address
}

fn http_status(code: u16) -> axum::http::StatusCode {
    axum::http::StatusCode::from_u16(code).unwrap()
}

/// Captures a page; none, with a line that says so, if this machine has no browser.
async fn capture(
    address: &str,
    frames: &[(ScreenSize, ColorScheme)],
) -> Option<Result<PageReport, BrowserError>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find_browser(&path) else {
        eprintln!("skipped: no Chromium is installed here");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let url = read_address(address).unwrap();
    Some(capture_page((&program, folder.path()), &url, frames).await)
}

/// Width and height of a PNG, and its first bytes of colour.
fn measure(png: &str) -> (u32, u32, Vec<u8>) {
    let bytes = base64::engine::general_purpose::STANDARD.decode(png).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20), bytes)
}

#[tokio::test]
async fn a_page_is_shown_in_each_size_and_colour_with_what_went_wrong_on_it() {
    let address = serve().await;
    let frames = [
        (ScreenSize::Phone, ColorScheme::Light),
        (ScreenSize::Phone, ColorScheme::Dark),
        (ScreenSize::Desktop, ColorScheme::Light),
    ];
    let Some(report) = capture(&format!("http://localhost:{}/", address.port()), &frames).await
    else {
        return;
    };
    let report = report.unwrap();
    assert_eq!((report.status, report.title.as_str()), (Some(200), "Shop"));
    let sizes: Vec<_> = report.shots.iter().map(|shot| measure(&shot.png)).collect();
    let shown: Vec<_> = sizes.iter().map(|(width, height, _)| (*width, *height)).collect();
    assert_eq!(shown, [(780, 2400), (780, 2400), (1280, 1200)]);
    assert_ne!(sizes[0].2, sizes[1].2, "dark is another picture");
    let said = report.complaints.join("\n");
    assert!(said.contains("no stock 3") || said.contains("no stock …"), "{said}");
    assert!(said.contains("undefinedThing"), "{said}");
    assert!(said.contains("example.com"), "another host is not reached: {said}");
    assert!(!report.is_unfinished);
}

#[tokio::test]
async fn a_long_page_is_cut_and_an_error_of_its_server_is_told() {
    let address = serve().await;
    let frame = [(ScreenSize::Desktop, ColorScheme::Light)];
    let Some(long) = capture(&format!("http://127.0.0.1:{}/long", address.port()), &frame).await
    else {
        return;
    };
    let long = long.unwrap();
    assert!(long.shots[0].is_cut);
    assert_eq!(measure(&long.shots[0].png).1, 4_000);
    let broken = capture(&format!("http://127.0.0.1:{}/broken", address.port()), &frame).await;
    assert_eq!(broken.unwrap().unwrap().status, Some(500));
}

#[tokio::test]
async fn nobody_who_listens_and_a_page_that_leads_away_end_in_a_sentence() {
    let address = serve().await;
    let frame = [(ScreenSize::Desktop, ColorScheme::Light)];
    let Some(away) = capture(&format!("http://127.0.0.1:{}/away", address.port()), &frame).await
    else {
        return;
    };
    let away = away.unwrap_err().to_string();
    assert!(away.contains("leads away from this pod"), "{away}");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let gone = capture(&format!("http://localhost:{port}/"), &frame).await.unwrap();
    let gone = gone.unwrap_err().to_string();
    assert!(gone.contains("start the server first"), "{gone}");
}
