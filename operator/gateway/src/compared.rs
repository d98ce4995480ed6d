//! Pages before and after a change, as a pull request shows them. Pure.

use std::fmt::Write as _;

use codebutler_crds::thread::{PushedView, ThreadPictures};
use codebutler_crds::wire::{MAX_PAGE, PageColors, PageWidth, describe_view};
use codebutler_gateway_core::remote::Remote;
use sha2::{Digest as _, Sha256};

const HEADING: &str = "### Before and after";
/// Note below the pictures about how long they are kept.
const FATE: &str = "<sub>Taken of the running page. They are kept until the branch is deleted, and in the conversation.</sub>";

/// The path and query of a page as they may stand in a message and in a description: nothing in them is markup.
pub fn read_page(page: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~%?=&+,:;!".contains(c);
    let page = page.trim();
    let fits = page.starts_with('/') && page.len() <= MAX_PAGE;
    fits.then(|| page.chars().map(|c| if plain(c) { c } else { '_' }).collect())
}

/// The name of a picture on the Git host.
pub fn file_name(page: &str, (width, colors): (PageWidth, PageColors), when: &str) -> String {
    let page = hex::encode(&Sha256::digest(page.as_bytes())[..6]);
    format!("{page}-{}-{}-{when}.png", width.name(), colors.name())
}

/// The part of a description; nothing where there are no pictures.
pub fn write_section(remote: &Remote, pictures: Option<&ThreadPictures>) -> String {
    let Some(pictures) = pictures else { return String::new() };
    let Some(commit) = pictures.commit.as_deref() else { return String::new() };
    if pictures.views.is_empty() {
        return String::new();
    }
    let mut text = HEADING.to_owned();
    for view in &pictures.views {
        let image = |when: &str| show_image(remote, commit, view, when);
        let seen = describe_view(view.width, view.colors);
        let page = &view.page;
        let shown = if view.before.is_some() {
            let (before, after) = (image("before"), image("after"));
            format!("| Before | After |\n| --- | --- |\n| {before} | {after} |")
        } else {
            format!("New: {}", image("after"))
        };
        let _ = write!(text, "\n\n`{page}` ({seen})\n\n{shown}");
    }
    format!("{text}\n\n{FATE}")
}

fn show_image(remote: &Remote, commit: &str, view: &PushedView, when: &str) -> String {
    let name = file_name(&view.page, (view.width, view.colors), when);
    let url = remote.image_url(commit, &name);
    let width = match view.width {
        PageWidth::Phone => 240,
        PageWidth::Desktop => 420,
    };
    let seen = describe_view(view.width, view.colors);
    let page = view.page.replace('&', "&amp;");
    format!("<img width=\"{width}\" alt=\"{when}: {page} ({seen})\" src=\"{url}\">")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_no_markup_whatever_its_address_is() {
        assert_eq!(read_page("/cart?a=1&b=%20").as_deref(), Some("/cart?a=1&b=%20"));
        assert_eq!(
            read_page("/`|\"><img src=x>\n@all*").as_deref(),
            Some("/_____img_src=x___all_")
        );
        for other in ["", "cart", "http://localhost/", &format!("/{}", "x".repeat(MAX_PAGE))] {
            assert_eq!(read_page(other), None, "{other}");
        }
    }

    #[test]
    fn a_pull_request_shows_pairs_and_new_pages() {
        let remote = Remote::parse("https://github.com/acme/shop").unwrap();
        let view = |page: &str, width, before: Option<&str>| PushedView {
            page: page.to_owned(),
            width,
            colors: PageColors::Light,
            before: before.map(str::to_owned),
            after: "a".repeat(40),
        };
        let mut pictures = ThreadPictures {
            views: vec![
                view("/?a=1&b=2", PageWidth::Phone, Some("b")),
                view("/new", PageWidth::Desktop, None),
            ],
            ..ThreadPictures::default()
        };
        assert_eq!(write_section(&remote, Some(&pictures)), "");
        pictures.commit = Some("c0ffee".to_owned());
        insta::assert_snapshot!(write_section(&remote, Some(&pictures)));
        assert_eq!(write_section(&remote, None), "");
    }
}
