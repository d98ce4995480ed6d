//! What `doctor` finds.

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingLevel {
    /// Somebody has to do something.
    Trouble,
    /// It goes on by itself, or is what somebody wanted.
    Remark,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    pub(crate) level: FindingLevel,
    /// `Repo team/shop`.
    pub(crate) what: String,
    /// The condition's reason.
    pub(crate) reason: String,
    /// The condition's message.
    pub(crate) said: String,
    /// The remedy.
    pub(crate) todo: String,
}
