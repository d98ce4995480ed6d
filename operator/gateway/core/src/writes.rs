//! In whose name the gateway writes: what `managedFields` show of it.

use codebutler_crds::names;
use codebutler_runtime::apply::{created_by, written_by};
use kube::api::{PatchParams, PostParams};

pub fn patch_params() -> PatchParams {
    written_by(names::GATEWAY)
}

pub fn create_params() -> PostParams {
    created_by(names::GATEWAY)
}
