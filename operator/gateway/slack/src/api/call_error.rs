//! Failures of calls to Slack, and whether such a call may be made again.

use codebutler_gateway_core::dial::DialTrouble;

/// Method that shows a line to one person.
pub(crate) const EPHEMERAL: &str = "chat.postEphemeral";

/// A call did not succeed. Carries no text of a message and no token.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Slack answered with an error code.
    #[error("Slack refused {method}: {code}{}", words_remark(said.as_deref()))]
    Refused {
        method: &'static str,
        /// Slack's code, such as `not_in_channel`.
        code: String,
        /// The scope that is missing, for `missing_scope`.
        needed: Option<String>,
        /// Slack's own sentences about it, on one line and cut; to be masked where they are shown.
        said: Option<String>,
    },
    /// Slack kept saying "later".
    #[error("Slack limits {method}: try again later")]
    Limited { method: &'static str },
    /// No usable answer: where it is lost, whether the call had its effect is not known.
    #[error("Slack did not answer {method} properly ({what})")]
    Failed {
        method: &'static str,
        /// Short description of the failure.
        what: String,
        /// True if the answer is lost, or Slack failed on the way; false if the call was not sent, or Slack did not
        /// take it.
        lost: bool,
    },
}

impl CallError {
    /// Slack's code, if it answered with one.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// True if nobody knows whether the call had its effect.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(self, Self::Failed { lost: true, .. })
    }

    /// True if Slack takes no edit of the message: it is older than the workspace lets messages be edited, or another
    /// installation of the app has posted it.
    pub(crate) fn closes_edits(&self) -> bool {
        matches!(self.code(), Some("edit_window_closed" | "cant_update_message"))
    }

    /// True if the same call may succeed later, and is not seen twice then. Of a line for one person nobody can
    /// find out whether it stands.
    pub(crate) fn may_repeat(&self) -> bool {
        match self {
            Self::Refused { .. } => false,
            Self::Limited { .. } => true,
            Self::Failed { method, lost, .. } => !lost || *method != EPHEMERAL,
        }
    }
}

/// Slack's words as a remark behind a sentence.
pub(crate) fn words_remark(said: Option<&str>) -> String {
    said.map_or_else(String::new, |said| format!(". It says: “{said}”"))
}

/// Explains a status that is no answer of Slack's; `None` for all others.
pub(crate) fn unanswered_status(status: u16) -> Option<String> {
    DialTrouble::by_status(status).map(|why| format!("no connection: {why}"))
}
