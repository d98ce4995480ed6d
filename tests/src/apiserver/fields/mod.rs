//! Field ownership: managed fields and server-side apply.

mod apply;
mod managers;
mod set;
mod walk;

pub(super) use apply::{FieldManager, apply_config, is_same_but_times, record_update};
