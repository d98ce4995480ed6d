//! Failures on purpose, drawn from a seed: requests that are refused, whose answer is lost or late,
//! and watches that lag and end. One user meets them, all others are served as ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::auth::{ApiUser, RequestAttributes};

/// A fault that is injected into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiFault {
    /// The request is refused with this code and nothing is done.
    Refused(u16),
    /// The request is done, and the answer is a 500.
    Lost,
    /// The request is done after this delay.
    Late(Duration),
    /// The watch tells everything this much later, and ends after a while.
    Watch {
        /// Delay of every event of the watch.
        lag: Duration,
        /// Time after which the watch ends.
        ends: Duration,
    },
}

/// A source of injected faults, for one user.
#[derive(Debug)]
pub struct FaultSource {
    user: String,
    rate: f64,
    dice: Mutex<StdRng>,
    on: AtomicBool,
    met: AtomicU64,
}

impl FaultSource {
    /// Failures for a user; `rate` is the part of his requests that meets one.
    pub fn new(seed: u64, user: &str, rate: f64) -> Self {
        Self {
            user: user.to_owned(),
            rate,
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            on: AtomicBool::new(true),
            met: AtomicU64::new(0),
        }
    }

    /// Stops injecting faults: from now on everything works.
    pub fn stop(&self) {
        self.on.store(false, Ordering::SeqCst);
    }

    /// Number of requests that met a fault.
    pub fn met(&self) -> u64 {
        self.met.load(Ordering::SeqCst)
    }

    /// Draws the fault of a request, if it meets one.
    pub(super) fn draw(&self, user: &ApiUser, wanted: &RequestAttributes) -> Option<ApiFault> {
        if !self.on.load(Ordering::SeqCst) || user.name != self.user {
            return None;
        }
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = match wanted.verb.as_str() {
            // Each one, so that none lasts.
            "watch" => ApiFault::Watch {
                lag: Duration::from_millis(dice.random_range(0..150)),
                ends: Duration::from_millis(dice.random_range(100..3000)),
            },
            _ if !dice.random_bool(self.rate) => return None,
            "create" | "patch" | "update" | "delete" => match dice.random_range(0..5) {
                0 => ApiFault::Refused(409),
                1 => ApiFault::Refused(429),
                2 => ApiFault::Refused(500),
                3 => ApiFault::Lost,
                _ => ApiFault::Late(Duration::from_millis(dice.random_range(1..200))),
            },
            _ => match dice.random_range(0..3) {
                0 => ApiFault::Refused(429),
                1 => ApiFault::Refused(500),
                _ => ApiFault::Late(Duration::from_millis(dice.random_range(1..200))),
            },
        };
        self.met.fetch_add(1, Ordering::SeqCst);
        Some(fault)
    }
}
