//! Records of calls whose cost is not known, and the places where they are written.

use codebutler_crds::spend::LeavingGateway;

use super::leaving::LeavingEntries;
use super::open::CallListing;

/// Records to write of calls whose cost is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecords {
    /// All open calls.
    pub all: CallListing,
    /// Entries of others that are in the books now.
    pub taken: LeavingEntries,
    /// Place where the calls are written.
    pub part: CallHolder,
}

/// Place where calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallHolder {
    /// The holder's own books.
    Own,
    /// Calls under way are taken out of the books, which keep the others.
    HandOver(CallListing, LeavingGateway),
    /// The entry of those that were taken out of the books.
    Apart(LeavingGateway),
}
