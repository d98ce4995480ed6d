//! Upkeep that happens without anybody saying a word: [`thread_upkeep`] looks for it.

pub(crate) mod deleted_conversations;
pub(crate) mod deletion_notice;
pub(crate) mod finish_reaction;
pub(crate) mod handover;
pub(crate) mod learning_offer;
pub(crate) mod thread_upkeep;
