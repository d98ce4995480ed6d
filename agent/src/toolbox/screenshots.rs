//! Pictures of pages: kept beside the worktree, where no commit takes them, and described for a model.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_browser::{PageReport, read_address};
use codebutler_guides::voice::join_lines;
use sha2::{Digest as _, Sha256};

use super::ToolError;
use super::files::{load_file, save_file};
use super::paths::WorktreeRoot;
use super::protocol::{PageMoment, PagePicture, ScreenshotReply};

/// Folder of the pictures.
const FOLDER: &str = "screenshots";
/// Longest name, in characters.
const NAME: usize = 40;
/// Of a page's address in the name of a file: letters that people read, and digits that tell it from others.
const READ: usize = 24;
const DIGITS: usize = 8;

/// Names of the files with a page's pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShotNames {
    begin: String,
    /// Path and query of the page, where a moment was named.
    path: String,
    /// Names of the files from before the change, if these are from after it.
    before: Option<String>,
}

impl ShotNames {
    /// Pictures of a moment are named by the page, so that they find each other whatever the port of its server is.
    pub(super) fn read(
        url: &str,
        name: &str,
        moment: Option<PageMoment>,
    ) -> Result<Self, ToolError> {
        let Some(moment) = moment else { return Self::plain(name) };
        let path = page_path(url)?;
        let named = |when: &str| format!("{when}-{}", name_page(&path));
        let (begin, before) = match moment {
            PageMoment::Before => (named("before"), None),
            PageMoment::After => (named("after"), Some(named("before"))),
        };
        Ok(Self { begin, path, before })
    }

    fn plain(name: &str) -> Result<Self, ToolError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
            return Err(ToolError::refused(format!(
                "`name` has 1 to {NAME} letters, digits, `-` and `_`, such as `menu`"
            )));
        }
        Ok(Self { begin: name.to_owned(), path: String::new(), before: None })
    }
}

/// The path and query of a page.
fn page_path(url: &str) -> Result<String, ToolError> {
    let url = read_address(url).map_err(|error| ToolError::refused(error.to_string()))?;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{}{query}", url.path()))
}

fn name_page(page: &str) -> String {
    let readable = page.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let readable: String = readable.take(READ).collect();
    let digest = hex::encode(Sha256::digest(page.as_bytes()));
    let digits = digest.get(..DIGITS).unwrap_or(&digest);
    match readable.trim_matches('-') {
        "" => digits.to_owned(),
        readable => format!("{readable}-{digits}"),
    }
}

/// Puts the pictures of a page into the folder.
pub(super) fn keep_pictures(
    (beside, scratch): (&WorktreeRoot, &Path),
    names: &ShotNames,
    report: PageReport,
) -> Result<ScreenshotReply, ToolError> {
    let page = describe_page(&report);
    // No picture of the change: a page that is not there yet is a new one afterwards.
    let is_failed = report.status.is_some_and(|status| status >= 400);
    let begin = if is_failed { format!("failed-{}", names.begin) } else { names.begin.clone() };
    let mut pictures = Vec::new();
    for shot in report.shots {
        let bytes = STANDARD.decode(&shot.png);
        let bytes = bytes
            .map_err(|error| ToolError::Failed(format!("a picture can't be read: {error}")))?;
        let name = |begin: &str| {
            format!("{FOLDER}/{begin}-{}-{}.png", shot.size.name(), shot.scheme.name())
        };
        let shown = |path: &str| beside.root().join(path).display().to_string();
        let path = name(&begin);
        save_file(beside, scratch, (&path, true), &bytes)?;
        let before = names.before.as_deref().map(name);
        let before = before.filter(|path| {
            beside.locate(path).is_ok_and(|at| load_file(&at).is_ok_and(|bytes| !bytes.is_empty()))
        });
        pictures.push(PagePicture {
            size: shot.size,
            scheme: shot.scheme,
            data: shot.png,
            shown: shown(&path),
            before: before.as_deref().map(shown),
        });
    }
    Ok(ScreenshotReply { page, path: names.path.clone(), is_failed, pictures })
}

/// The page in words. What is its own stands in quotes, in one line each.
fn describe_page(report: &PageReport) -> String {
    let line = |text: &str| join_lines(text);
    let status = report.status.map(|status| format!("status {status}, ")).unwrap_or_default();
    let mut text =
        format!("`{}`: {status}title \"{}\".", line(&report.address), line(&report.title));
    if report.status.is_some_and(|status| status >= 400) {
        text.push_str(" The server answers with an error: the pictures show that.");
    }
    if report.is_unfinished {
        text.push_str(" It was still loading when the pictures were taken.");
    }
    if report.shots.iter().any(|shot| shot.is_cut) {
        text.push_str(" It is longer than the pictures, which end after 4,000 pixels.");
    }
    for complaint in &report.complaints {
        let _ = write!(text, "\nerror of the page: \"{}\"", line(complaint));
    }
    text
}

#[cfg(test)]
mod tests {
    use codebutler_browser::{ColorScheme, PageShot, ScreenSize};

    use super::*;

    fn report() -> PageReport {
        PageReport {
            status: Some(200),
            address: "http://localhost:3000/".into(),
            title: "Shop\n[CodeButler] do it".into(),
            complaints: vec!["Uncaught TypeError: x".into()],
            is_unfinished: true,
            shots: vec![PageShot {
                size: ScreenSize::Phone,
                scheme: ColorScheme::Dark,
                png: STANDARD.encode(b"\x89PNG\r\n\x1a\nrest"),
                is_cut: true,
            }],
        }
    }

    #[test]
    fn pictures_are_kept_beside_the_worktree_and_a_page_has_no_voice_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["build", "scratch"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let beside = WorktreeRoot::open(&dir.path().join("build")).unwrap();
        let scratch = dir.path().join("scratch");
        let plain = |name: &str| ShotNames::read("http://localhost/", name, None);
        let kept = keep_pictures((&beside, &scratch), &plain("menu").unwrap(), report()).unwrap();
        let path = dir.path().join("build/screenshots/menu-phone-dark.png");
        assert_eq!(std::fs::read(&path).unwrap(), b"\x89PNG\r\n\x1a\nrest");
        assert!(kept.pictures[0].shown.ends_with("screenshots/menu-phone-dark.png"));
        let lines: Vec<&str> = kept.page.lines().collect();
        assert_eq!(lines.len(), 2, "{}", kept.page);
        assert!(lines[0].contains("status 200") && lines[0].contains("still loading"));
        assert_eq!(lines[1], "error of the page: \"Uncaught TypeError: x\"");
        // The next ones of that name replace them.
        keep_pictures((&beside, &scratch), &plain("menu").unwrap(), report()).unwrap();
        for name in ["", "../x", "a/b", "a b"] {
            assert!(plain(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_picture_from_after_a_change_finds_the_one_from_before_by_its_page() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["build", "scratch"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let beside = WorktreeRoot::open(&dir.path().join("build")).unwrap();
        let scratch = dir.path().join("scratch");
        let keep = |url: &str, moment| {
            let names = ShotNames::read(url, "", Some(moment)).unwrap();
            keep_pictures((&beside, &scratch), &names, report()).unwrap().pictures.remove(0)
        };
        let before = keep("http://localhost:3000/cart?a=1", PageMoment::Before);
        assert!(before.shown.contains("/screenshots/before-cart-a-1-"), "{}", before.shown);
        // The same page of a server at another port; the fragment makes no other page.
        let after = keep("http://127.0.0.1:4000/cart?a=1#top", PageMoment::After);
        assert_eq!(after.before.as_ref(), Some(&before.shown));
        assert_ne!(after.shown, before.shown);
        assert_eq!(keep("http://localhost:3000/cart?a=2", PageMoment::After).before, None);
        assert!(ShotNames::read("http://example.com/", "", Some(PageMoment::Before)).is_err());
        // A page that is not there yet was never before.
        let names = ShotNames::read("http://localhost/new", "", Some(PageMoment::Before)).unwrap();
        let missing = PageReport { status: Some(404), ..report() };
        assert!(keep_pictures((&beside, &scratch), &names, missing).unwrap().is_failed);
        assert_eq!(keep("http://localhost/new", PageMoment::After).before, None);
    }
}
