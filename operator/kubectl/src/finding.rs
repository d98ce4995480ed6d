//! Findings of `doctor`.

/// Severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingLevel {
    /// A person has to act.
    Trouble,
    /// It resolves by itself, or somebody wanted it so.
    Remark,
}

/// One thing that is not as it should be, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    pub(crate) level: FindingLevel,
    /// Object that it is about, such as `Repo team/shop`.
    pub(crate) what: String,
    /// Reason of the object's condition.
    pub(crate) reason: String,
    /// Message of the object's condition.
    pub(crate) said: String,
    /// Remedy for people.
    pub(crate) todo: String,
}
