//! In whose name the gateway writes: what `managedFields` show of it.

use codebutler_crds::names;
use kube::api::{PatchParams, PostParams};

use crate::apply::{created_by, written_by};

pub fn patch_params() -> PatchParams {
    written_by(names::GATEWAY)
}

pub fn create_params() -> PostParams {
    created_by(names::GATEWAY)
}
