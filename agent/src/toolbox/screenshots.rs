//! Pictures of pages: kept beside the worktree, where no commit takes them, and described for a model.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_browser::PageReport;
use codebutler_guides::voice::join_lines;

use super::ToolError;
use super::files::save_file;
use super::paths::WorktreeRoot;
use super::protocol::{ScreenshotReply, WorktreePicture};

/// Their folder.
const FOLDER: &str = "screenshots";
/// Longest name, in characters.
const NAME: usize = 40;

/// Puts the pictures of a page into the folder.
pub fn keep_pictures(
    (beside, scratch): (&WorktreeRoot, &Path),
    name: &str,
    report: PageReport,
) -> Result<ScreenshotReply, ToolError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
        return Err(ToolError::refused(format!(
            "`name` has 1 to {NAME} letters, digits, `-` and `_`, such as `before`"
        )));
    }
    let page = describe_page(&report);
    let mut pictures = Vec::new();
    for shot in report.shots {
        let bytes = STANDARD.decode(&shot.png);
        let bytes = bytes
            .map_err(|error| ToolError::Failed(format!("a picture can't be read: {error}")))?;
        let path = format!("{FOLDER}/{name}-{}-{}.png", shot.size.name(), shot.scheme.name());
        save_file(beside, scratch, (&path, true), &bytes)?;
        let shown = beside.root().join(&path).display().to_string();
        pictures.push(WorktreePicture {
            media_type: "image/png".to_owned(),
            data: shot.png,
            shown,
        });
    }
    Ok(ScreenshotReply { page, pictures })
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
            status: Some(500),
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
        let kept = keep_pictures((&beside, &scratch), "before", report()).unwrap();
        let path = dir.path().join("build/screenshots/before-phone-dark.png");
        assert_eq!(std::fs::read(&path).unwrap(), b"\x89PNG\r\n\x1a\nrest");
        assert!(kept.pictures[0].shown.ends_with("screenshots/before-phone-dark.png"));
        let lines: Vec<&str> = kept.page.lines().collect();
        assert_eq!(lines.len(), 2, "{}", kept.page);
        assert!(lines[0].contains("status 500") && lines[0].contains("still loading"));
        assert_eq!(lines[1], "error of the page: \"Uncaught TypeError: x\"");
        // The next ones of that name replace them.
        keep_pictures((&beside, &scratch), "before", report()).unwrap();
        for name in ["", "../x", "a/b", "a b"] {
            assert!(keep_pictures((&beside, &scratch), name, report()).is_err(), "{name}");
        }
    }
}
