//! Reasons for which a file can't be had from Slack. Pure.

use reqwest::StatusCode;

use crate::api::call_error::{CallError, unanswered_status};

/// Method name under which downloads are counted and reported.
pub(crate) const DOWNLOAD: &str = "download";
/// Code for a file of another service, which Slack only names.
pub(crate) const EXTERNAL: &str = "external_file";
/// Code for Slack's sign-in page in the place of a file.
pub(crate) const SIGN_IN: &str = "sign_in_page";

/// A file that Slack does not hand out, however often it is asked.
pub(crate) fn refused_download(code: impl Into<String>) -> CallError {
    CallError::Refused { method: DOWNLOAD, code: code.into(), needed: None, said: None }
}

/// The failure of a download that was answered with this status.
pub(crate) fn failed_download(status: StatusCode) -> CallError {
    let number = status.as_u16();
    if let Some(why) = unanswered_status(number) {
        return CallError::Failed { method: DOWNLOAD, what: why, lost: true };
    }
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => refused_download("file_not_found"),
        StatusCode::TOO_MANY_REQUESTS => CallError::Limited { method: DOWNLOAD },
        status if status.is_server_error() => {
            let what = format!("status {number}");
            CallError::Failed { method: DOWNLOAD, what, lost: false }
        }
        // Without the scope, Slack redirects to its sign-in page. That redirect is not followed.
        _ => refused_download(format!("http_{number}")),
    }
}

/// True for a web page in the place of a file of this type: without the right to a file, Slack answers with its sign-in
/// page.
pub(crate) fn is_page_instead(kind: &str, sent: &str) -> bool {
    let is_page = |kind: &str| kind.starts_with("text/html");
    // Canvases and lists are pages, and a file of a type that Slack does not know may be one.
    let unclear = ["", "application/octet-stream", "application/xhtml+xml"];
    let may_be =
        is_page(kind) || kind.starts_with("application/vnd.slack") || unclear.contains(&kind);
    is_page(sent) && !may_be
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_refused_by_what_slack_says_and_not_by_its_trouble() {
        for (status, code) in
            [(302, Some("http_302")), (404, Some("file_not_found")), (429, None), (503, None)]
        {
            let error = failed_download(StatusCode::from_u16(status).unwrap());
            assert_eq!(error.code(), code, "{status}");
        }
    }

    #[test]
    fn a_web_page_in_the_place_of_a_file_is_no_file() {
        let page = "text/html; charset=utf-8";
        for kind in ["text/plain", "image/png", "audio/mp4", "application/pdf"] {
            assert!(is_page_instead(kind, page), "{kind}");
            assert!(!is_page_instead(kind, kind) && !is_page_instead(kind, ""), "{kind}");
        }
        for kind in ["text/html", "application/vnd.slack-docs", "application/octet-stream", ""] {
            assert!(!is_page_instead(kind, page), "{kind}");
        }
    }
}
