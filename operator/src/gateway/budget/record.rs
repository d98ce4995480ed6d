//! What is written of calls whose cost is not known, and where.

use codebutler_crds::spend::Leaving;

use super::leaving::Entries;
use super::open::Listing;

/// What is written of calls whose cost is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// All of them.
    pub all: Listing,
    /// Those of others that are in the books now.
    pub taken: Entries,
    /// Where they are written.
    pub part: Part,
}

/// Where calls are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// In the books.
    Own,
    /// Those under way are taken out of the books, which say the others.
    HandOver(Listing, Leaving),
    /// Where those were put that were taken out.
    Apart(Leaving),
}
