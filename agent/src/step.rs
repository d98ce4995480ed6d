//! Step points: named places before and after everything that outlives the process.
//!
//! A crash test starts the agent with `CODEBUTLER_DIE_AT_STEP=<n>` and the process kills itself
//! with SIGKILL at the n-th step point it passes. Walking n from 1 until the process ends by itself
//! tries every place where a pod can die. Unarmed, a point costs one atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, raise};

static PASSED: AtomicU64 = AtomicU64::new(0);
/// Number of the point at which to die; 0 for never.
static DIE_AT: AtomicU64 = AtomicU64::new(0);

/// Chooses the point at which to die; counted from 1.
pub fn arm(at: Option<u64>) {
    DIE_AT.store(at.unwrap_or(0), Ordering::Relaxed);
}

pub fn point(name: &str) {
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    tracing::debug!(step = passed, name, "step_reached");
    if passed == DIE_AT.load(Ordering::Relaxed) {
        let _ = raise(Signal::SIGKILL);
    }
}
