//! Permissions of people in a repository, and the words of the host for them.

/// A person's standing in a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonStanding {
    /// May write to it, as a member of the organisation that tells nobody so.
    Collaborator,
    /// A known member of the organisation who may read it.
    Reader,
    /// Anybody else who has an account.
    Stranger,
}

impl PersonStanding {
    pub(super) const fn association(self) -> &'static str {
        match self {
            Self::Reader => "MEMBER",
            // To most credentials a hidden membership looks like none.
            Self::Collaborator | Self::Stranger => "NONE",
        }
    }

    /// The permission, as the host words it when asked about the person.
    pub(super) const fn permission(self) -> &'static str {
        match self {
            Self::Collaborator => "write",
            Self::Reader => "read",
            Self::Stranger => "none",
        }
    }
}
