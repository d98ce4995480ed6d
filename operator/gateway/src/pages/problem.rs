//! Errors of pages, each rendered as a page that says what to do.

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use url::form_urlencoded::byte_serialize;

#[derive(Debug)]
pub(super) enum PageProblem {
    NoPage,
    /// The viewer has to sign in first.
    SignIn {
        /// Path to return to after the sign-in.
        to: String,
        /// A form was sent, and nothing came of it.
        unsent: bool,
    },
    /// This person may not see the page, which may or may not exist.
    NotShown,
    NotSteering,
    /// A change that was not asked for on a page of these.
    NotAsked,
    /// The issuer or the Secret is away: a sentence.
    NoSignIn(&'static str),
    /// The issuer said no, or not enough.
    NotSignedIn {
        to: String,
        /// Sentences: why, and what can be done.
        why: String,
    },
    /// An answer of the issuer that nobody waits for.
    SignedInLate,
    /// The link to sign in to a server was used, or its time is over.
    ServerLinkGone,
    /// The link was sent to another person.
    ServerLinkForeign,
    /// The server, or its authorization server, said no; sentences.
    ServerNotSignedIn(String),
    /// Slack does not hand a picture out; a sentence.
    NoPicture(String),
    /// Slack or the cluster does not say; a sentence.
    Unknown(String),
    /// Others, or the same person, have too much under way; a sentence.
    Busy(&'static str),
    /// The requested history is too long for one answer.
    TooLong,
    Away(std::io::Error),
}

/// Status, title, text, and where to go from there.
type ProblemWords = (StatusCode, &'static str, String, Option<(String, &'static str)>);

fn describe_sign_in(address: String, unsent: bool) -> ProblemWords {
    let (title, text) = if unsent {
        let text = "Your session has ended, and nothing was sent. Go back in your browser to copy what you wrote, \
                    then sign in.";
        ("Sign in again", text)
    } else {
        let text = "Threads are shown to the members of the channel that they are held in.";
        ("Sign in to see this", text)
    };
    (StatusCode::UNAUTHORIZED, title, text.to_owned(), Some((address, "Sign in")))
}

fn describe_gone_link() -> ProblemWords {
    let text = "It works once, for 15 minutes and in one browser. Write in the thread again to get another one.";
    (StatusCode::BAD_REQUEST, "This link has expired", text.to_owned(), None)
}

fn describe_foreign_link() -> ProblemWords {
    let text =
        "It signs in the person to whom it was sent. Write in the thread to get one of your own.";
    (StatusCode::FORBIDDEN, "This link is for another person", text.to_owned(), None)
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        let again = |to: &str| {
            let to: String = byte_serialize(to.as_bytes()).collect();
            format!("/sign-in?to={to}")
        };
        let home = || ("/".to_owned(), "All threads");
        let (status, title, text, action) = match self {
            Self::NoPage => (
                StatusCode::NOT_FOUND,
                "There is no such page",
                "The address is wrong, or what was there has been removed since.".to_owned(),
                Some(home()),
            ),
            Self::SignIn { to, unsent } => describe_sign_in(again(&to), unsent),
            Self::NotShown => (
                StatusCode::FORBIDDEN,
                "This is not shown to you",
                "There is no such thread, or you are not in its channel, or signed in to another \
                 workspace. Join the channel in Slack and load this page again."
                    .to_owned(),
                Some(home()),
            ),
            Self::NotSteering => (
                StatusCode::FORBIDDEN,
                "You can't steer here",
                "This team lists who may, and you are not among them. Whoever runs CodeButler can add you \
                 (spec.access.users of this channel's Repo)."
                    .to_owned(),
                None,
            ),
            Self::NotAsked => (
                StatusCode::FORBIDDEN,
                "Nothing was changed",
                "The page was too old, or another site asked for this: load the page again and \
                 press the button there."
                    .to_owned(),
                Some(home()),
            ),
            Self::NoSignIn(why) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Nobody can sign in right now",
                format!("{why} The gateway's log says more. Try again in a minute."),
                None,
            ),
            Self::NotSignedIn { to, why } => (
                StatusCode::FORBIDDEN,
                "You are not signed in",
                why,
                Some((again(&to), "Try again")),
            ),
            Self::SignedInLate => (
                StatusCode::BAD_REQUEST,
                "This link has expired",
                "Signing in takes ten minutes at most, and is done in one browser.".to_owned(),
                Some((again("/"), "Sign in")),
            ),
            Self::ServerLinkGone => describe_gone_link(),
            Self::ServerLinkForeign => describe_foreign_link(),
            Self::ServerNotSignedIn(text) => {
                (StatusCode::BAD_GATEWAY, "You are not signed in", text, None)
            }
            Self::NoPicture(sentence) => {
                (StatusCode::NOT_FOUND, "This picture can't be shown", sentence, None)
            }
            Self::Unknown(sentence) => {
                (StatusCode::SERVICE_UNAVAILABLE, "Nobody knows right now", sentence, None)
            }
            Self::Busy(why) => (
                StatusCode::TOO_MANY_REQUESTS,
                "Not right now",
                format!("{why} Load this page again in a moment."),
                None,
            ),
            Self::TooLong => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "This history is too long for one file",
                "Take its lines (events.jsonl) instead, or use `codebutler-operator history` with \
                 `--form atif`."
                    .to_owned(),
                None,
            ),
            Self::Away(error) => {
                tracing::warn!(%error, "page_failed");
                let text = "Work goes on, and what happens is kept until it can. Try again in a \
                            minute."
                    .to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "The history can't be read right now", text, None)
            }
        };
        let action = action.as_ref().map(|(address, words)| (address.as_str(), *words));
        (status, Html(codebutler_pages::render_notice(title, &text, action))).into_response()
    }
}

impl From<std::io::Error> for PageProblem {
    fn from(error: std::io::Error) -> Self {
        Self::Away(error)
    }
}
