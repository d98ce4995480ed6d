//! What is written of calls whose cost is not known, and where.

use codebutler_crds::spend::LeavingGateway;

use super::leaving::LeavingEntries;
use super::open::CallListing;

/// What is written of calls whose cost is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecords {
    /// All of them.
    pub all: CallListing,
    /// Those of others that are in the books now.
    pub taken: LeavingEntries,
    /// Where they are written.
    pub part: CallHolder,
}

/// Where calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallHolder {
    /// In the books.
    Own,
    /// Those under way are taken out of the books, which say the others.
    HandOver(CallListing, LeavingGateway),
    /// Where those were put that were taken out.
    Apart(LeavingGateway),
}
