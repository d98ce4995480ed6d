//! Pictures of a page that a server of the same pod shows: Chromium is started for them, reaches nothing but the
//! loopback address, and is asked over its DevTools protocol. The page and all that it says are untrusted.

mod address;
mod capture;
mod devtools;
mod program;

pub use address::{AddressError, read_address};
pub use capture::{PageReport, PageShot, capture_page};
pub use program::find_browser;

use serde::{Deserialize, Serialize};

/// Width of the window that a page is shown in, and its height before it is scrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScreenSize {
    /// 390 × 844, with touch, two pixels for each of the page's.
    Phone,
    /// 1280 × 800 pixels.
    Desktop,
}

/// The colours that a page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorScheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl ScreenSize {
    /// Name of the size, as part of file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Desktop => "desktop",
        }
    }
}

impl ColorScheme {
    /// Name of the scheme, as part of file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// The reason that there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The image has no browser.
    #[error(
        "no Chromium is installed here, so you can't look at a page: say that instead of showing it, and go on. A person can \
         give the image of this repository's commands one (Debian: `chromium` and `fonts-liberation`)"
    )]
    NotInstalled,
    /// The browser could not be started.
    #[error("Chromium does not start: {0}")]
    Start(String),
    /// The browser's process ended before the picture was taken.
    #[error("Chromium ended in the middle: {0}")]
    Ended(String),
    /// The server does not answer, or not in time.
    #[error("the page does not load: {0}")]
    Page(String),
    /// All pictures together took longer than this many seconds.
    #[error("the page took longer than {0} seconds")]
    Slow(u64),
    /// An answer that can't be read.
    #[error("Chromium answered `{method}` with something else: {answer}")]
    Strange {
        /// The command that it was sent.
        method: String,
        /// Beginning of the browser's answer.
        answer: String,
    },
}
