//! A cache of compiled definitions, by their text. Compiling one takes long, and a process that runs a
//! server for each of its tests would compile the same ones in each.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;

/// Texts that are remembered at most.
const MOST: usize = 64;

/// Results of compiling texts, by text.
pub(crate) struct KnownTexts<T>(Mutex<HashMap<String, T>>);

impl<T: Clone> KnownTexts<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Returns the cached result for `value` and `besides`, which are the key, or makes it with `make`.
    pub(crate) fn find_or_make(&self, besides: &str, value: &Value, make: impl FnOnce() -> T) -> T {
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
