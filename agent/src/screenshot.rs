//! `screenshot`: pictures of a page that a server of this pod shows, as one line of JSON on standard output. The
//! toolbox starts one for each page, in the sandbox of commands: what a hostile page does to its browser ends with
//! this process.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use codebutler_browser::{
    BrowserError, ColorScheme, PageReport, ScreenSize, capture_page, find_browser, read_address,
};
use serde::{Deserialize, Serialize};

/// Result of the process, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenshotAnswer {
    /// The page was loaded, and its pictures were taken.
    Taken(PageReport),
    /// No picture could be taken; says why.
    Failed(String),
}

/// Takes the pictures, within a folder that may be written to.
pub fn run_screenshot(
    folder: &Path,
    url: &str,
    frames: &[(ScreenSize, ColorScheme)],
    path: &OsStr,
) -> ExitCode {
    let answer = match take_pictures(folder, url, frames, path) {
        Ok(report) => ScreenshotAnswer::Taken(report),
        Err(error) => ScreenshotAnswer::Failed(error.to_string()),
    };
    match write_answer(&answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The output of `screenshot`, if it is whole.
pub fn read_answer(bytes: &[u8]) -> Option<ScreenshotAnswer> {
    serde_json::from_slice(bytes).ok()
}

fn take_pictures(
    folder: &Path,
    url: &str,
    frames: &[(ScreenSize, ColorScheme)],
    path: &OsStr,
) -> Result<PageReport, BrowserError> {
    let url = read_address(url).map_err(|error| BrowserError::Page(error.to_string()))?;
    let program = find_browser(path).ok_or(BrowserError::NotInstalled)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| BrowserError::Start(error.to_string()))?;
    runtime.block_on(capture_page((&program, folder), &url, frames))
}

fn write_answer(answer: &ScreenshotAnswer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    out.flush()
}
