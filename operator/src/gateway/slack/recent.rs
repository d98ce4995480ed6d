//! What was seen not long ago.

pub use crate::recent::RecentKeys;
