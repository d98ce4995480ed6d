//! Counts that are left out of an object where they are zero.

/// True for a count that serde leaves out; serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) const fn is_zero(count: &u32) -> bool {
    *count == 0
}
