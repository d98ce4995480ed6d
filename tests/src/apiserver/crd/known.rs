//! What is known of definitions by their text. To compile one takes long, and a process that runs a server for
//! each of its tests would compile the same ones in each.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;

/// Texts that are remembered at most.
const MOST: usize = 64;

/// What was made of texts, by text.
pub(super) struct KnownTexts<T>(Mutex<HashMap<String, T>>);

impl<T: Clone> KnownTexts<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// What `make` makes of `value` and of what it is besides.
    pub(super) fn find_or_make(&self, besides: &str, value: &Value, make: impl FnOnce() -> T) -> T {
        let text = format!("{besides}\n{value}");
        if let Some(known) = self.0.lock().get(&text) {
            return known.clone();
        }
        // Others go on meanwhile.
        let fresh = make();
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text, fresh.clone());
        fresh
    }
}
