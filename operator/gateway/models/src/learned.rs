//! What models have taught by refusals: the forms in which they take their parameters, where that is not the usual one.

use std::collections::HashMap;
use std::time::Duration;

use codebutler_crds::role::RoleModel;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::params::{SentEffort, SentParams, rank_effort};

/// Time after which the usual form is tried again: a server may have become another one.
const KEPT: Duration = Duration::from_hours(24);

/// Base URL and id of a model, and the rank of the effort that the role wants: a refusal of one says nothing of another.
type ParamsKey = (String, String, Option<u8>);

/// Address and id of a model, as its provider knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelAddress<'a> {
    pub base_url: &'a str,
    pub id: &'a str,
}

/// The forms that models have taken, and since when that is known.
#[derive(Default)]
pub(crate) struct LearnedParams {
    forms: Mutex<HashMap<ParamsKey, (Instant, SentParams)>>,
}

impl LearnedParams {
    /// The form in which a model is sent its parameters, as far as its refusals have shown.
    pub(crate) fn find(&self, role: &RoleModel, model: ModelAddress<'_>) -> SentParams {
        let known = self.forms.lock().get(&params_key(role, model)).copied();
        known.filter(|(at, _)| at.elapsed() < KEPT).map(|(_, params)| params).unwrap_or_default()
    }

    /// Returns true if a model is not told how much to think, as a role wants it, since it has refused that.
    pub(crate) fn is_untold(&self, role: &RoleModel, model: ModelAddress<'_>) -> bool {
        let is_wanted = role.reasoning.is_some_and(|reasoning| reasoning.effort.is_some());
        is_wanted && self.find(role, model).effort != SentEffort::Wanted
    }

    /// Keeps the form that a model has taken, for later calls. The usual one is not kept.
    pub(crate) fn learn(&self, role: &RoleModel, model: ModelAddress<'_>, params: SentParams) {
        let key = params_key(role, model);
        let mut known = self.forms.lock();
        if params == SentParams::default() {
            known.remove(&key);
            return;
        }
        let last = known.get(&key);
        let is_kept = last.is_some_and(|(at, same)| *same == params && at.elapsed() < KEPT);
        if !is_kept {
            known.insert(key, (Instant::now(), params));
        }
    }
}

fn params_key(role: &RoleModel, model: ModelAddress<'_>) -> ParamsKey {
    let effort = role.reasoning.and_then(|reasoning| reasoning.effort);
    (model.base_url.to_owned(), model.id.to_owned(), effort.map(rank_effort))
}
