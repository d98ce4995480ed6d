//! Step points: named places before and after everything that outlives the process.
//!
//! A crash test starts the gateway with `CODEBUTLER_DIE_AT_STEP=<n>` and the process ends itself,
//! without any clean-up, at the n-th step point that it passes. Unarmed, a point costs one atomic
//! addition.

use std::sync::atomic::{AtomicU64, Ordering};

static PASSED: AtomicU64 = AtomicU64::new(0);
/// Step at which to die; 0 means never.
static DIE_AT: AtomicU64 = AtomicU64::new(0);

/// Chooses the point at which to die; counted from 1.
pub fn arm(at: Option<u64>) {
    DIE_AT.store(at.unwrap_or(0), Ordering::Relaxed);
}

pub fn point(name: &str) {
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if passed == DIE_AT.load(Ordering::Relaxed) {
        tracing::warn!(step = passed, name, "crash_injected");
        std::process::abort();
    }
}
