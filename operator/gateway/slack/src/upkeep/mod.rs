//! What has to happen without anybody saying a word: [`thread_upkeep`] looks for it.

pub mod deleted_conversations;
pub mod deletion_notice;
pub mod finish_reaction;
pub mod handover;
pub mod learning_offer;
pub mod reachability;
pub mod thread_upkeep;
