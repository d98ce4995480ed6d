//! Patch: the format decides how the new object comes about.

use serde_json::Value;

use super::ResourceRequest;
use super::write::WriteChange;
use crate::apiserver::auth::{RequestAttributes, authorize_user};
use crate::apiserver::object;
use crate::apiserver::patch;
use crate::apiserver::render::{self, ApiResponse};
use crate::apiserver::status::ApiError;

impl ResourceRequest<'_> {
    pub(super) fn patch(&self) -> Result<ApiResponse, ApiError> {
        let request = self.request;
        let apply = request.content_type() == "application/apply-patch+yaml";
        self.check_write_options("PatchOptions", apply)?;
        let written = match request.content_type() {
            "application/json-patch+json" => {
                self.change(&WriteChange::Patch(&|live| patch::patch_json(live, &request.body)))?
            }
            "application/merge-patch+json" => {
                let changes = self.json()?;
                self.change(&WriteChange::Patch(&|live| patch::patch_merge(live, &changes)))?
            }
            "application/strategic-merge-patch+json" if self.kind.custom().is_none() => {
                let changes = self.json()?;
                self.change(&WriteChange::Patch(&|live| {
                    patch::patch_strategic(live, &changes, self.kind.node())
                }))?
            }
            "application/apply-patch+yaml" => return self.apply(),
            _ if self.kind.custom().is_none() => return Err(ApiError::unknown_patch()),
            _ => {
                return Err(ApiError::unsupported_media_type(
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ));
            }
        };
        let mut response = self.answer(200, &written.value);
        render::add_warnings(&mut response, &written.warnings);
        Ok(response)
    }

    fn apply(&self) -> Result<ApiResponse, ApiError> {
        let mut config: Value = self.yaml()?;
        if object::object_name(&config).is_empty() && config.is_object() {
            object::set_meta(&mut config, "name", Some(self.target.name.clone().into()));
        }
        self.check_identity(&mut config)?;
        self.prepare_config(&mut config)?;
        let force = self.request.query.flag("force");
        if self.stored().is_err() && self.target.subresource.is_empty() {
            self.may_create()?;
            match self.create_applied(&config) {
                // Somebody else was faster: apply to what is there now.
                Err(error) if error.reason == "AlreadyExists" => {}
                Err(error) => return Err(error),
                Ok(written) => {
                    let mut response = self.answer(201, &written.value);
                    render::add_warnings(&mut response, &written.warnings);
                    return Ok(response);
                }
            }
        }
        let written = self.change(&WriteChange::Apply(&config, force))?;
        let mut response = self.answer(200, &written.value);
        render::add_warnings(&mut response, &written.warnings);
        Ok(response)
    }

    /// Applying what is not there is a creation.
    fn may_create(&self) -> Result<(), ApiError> {
        let wanted = RequestAttributes { verb: "create".to_owned(), ..self.request.attributes() };
        if authorize_user(&self.server.store, &self.request.user, &wanted) {
            return Ok(());
        }
        let why = wanted.refusal(&self.request.user);
        Err(ApiError::forbidden(&self.kind.group, &self.kind.plural, &self.target.name, &why))
    }
}
