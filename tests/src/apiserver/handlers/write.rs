//! Create and update, and the one way by which any change of an object reaches the store.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ResourceRequest;
use super::delete;
use super::screen::undeclared_field;
use crate::apiserver::admission;
use crate::apiserver::convert;
use crate::apiserver::fields::{self, FieldManager};
use crate::apiserver::generated_name::random_suffix;
use crate::apiserver::object;
use crate::apiserver::render::{self, ApiResponse};
use crate::apiserver::schema;
use crate::apiserver::status::{ApiError, StatusCause};
use crate::apiserver::store::{CreateError, StoreView};
use crate::apiserver::strategy;

/// Most attempts at a change: one that lost a race is tried again on the newer object.
const ATTEMPTS: u32 = 16;
/// Most attempts at a generated name: one that is taken is drawn again.
const NAMES: u32 = 8;

/// The change that a write makes to an object.
pub(super) enum WriteChange<'a> {
    /// The object is replaced by this one.
    Replace(Value),
    /// The new object is computed from the live one.
    Patch(&'a (dyn Fn(&Value) -> Result<Value, ApiError> + Sync)),
    /// The object is merged with a configuration; with `true`, fields of others are taken by force.
    Apply(&'a Value, bool),
}

/// An object that was written, or would have been.
pub(super) struct WrittenObject {
    pub value: Arc<Value>,
    pub warnings: Vec<String>,
}

impl ResourceRequest<'_> {
    pub(super) fn create(&self) -> Result<ApiResponse, ApiError> {
        self.check_write_options("CreateOptions", false)?;
        let mut value = self.body()?;
        self.check_identity(&mut value)?;
        let warnings = self.screen(&mut value, false)?;
        let written = self.create_object(value, false)?;
        let mut response = self.answer(201, &written.value);
        render::add_warnings(&mut response, &warnings);
        render::add_warnings(&mut response, &written.warnings);
        Ok(response)
    }

    pub(super) fn update(&self) -> Result<ApiResponse, ApiError> {
        self.check_write_options("UpdateOptions", false)?;
        let mut value = self.body()?;
        self.check_identity(&mut value)?;
        if self.stored().is_err() && strategy::allows_create_on_update(&self.kind) {
            let warnings = self.screen(&mut value, false)?;
            let written = self.create_object(value, false)?;
            let mut response = self.answer(201, &written.value);
            render::add_warnings(&mut response, &warnings);
            return Ok(response);
        }
        let written = self.change(&WriteChange::Replace(value))?;
        let mut response = self.answer(200, &written.value);
        render::add_warnings(&mut response, &written.warnings);
        Ok(response)
    }

    fn manager<'b>(&'b self, name: &'b str, version: &'b str, now: &'b str) -> FieldManager<'b> {
        FieldManager { name, api_version: version, subresource: &self.target.subresource, now }
    }

    /// Stores a new object. An applied one has its managed fields already.
    pub(super) fn create_object(
        &self,
        mut value: Value,
        applied: bool,
    ) -> Result<WrittenObject, ApiError> {
        let (server, kind) = (self.server, &self.kind);
        if !object::object_version(&value).is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.check_namespace(&value, |table, ns, name| {
            server.store.get(table, ns, name).map(|s| s.value.clone())
        })?;
        let now = object::now_text();
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            object::set_meta(&mut value, field, None);
        }
        object::set_meta(&mut value, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
        object::set_meta(&mut value, "creationTimestamp", Some(now.clone().into()));
        let prefix =
            object::text_at(&value, "/metadata/generateName").unwrap_or_default().to_owned();
        let generated = object::object_name(&value).is_empty() && !prefix.is_empty();
        if generated {
            // 253 less the suffix.
            let prefix: String = prefix.chars().take(248).collect();
            object::set_meta(
                &mut value,
                "name",
                Some(format!("{prefix}{}", random_suffix()).into()),
            );
        }
        self.default(&mut value);
        if kind.status {
            object::set_field(&mut value, "status", None);
        }
        // Before what the server adds of its own: that belongs to nobody.
        if !applied {
            let (name, version) = (self.request.field_manager(), kind.api_version());
            let manager = self.manager(&name, &version, &now);
            fields::record_update(None, &mut value, kind.node(), &manager);
        }
        strategy::before_create(kind, &mut value);
        if kind.is("", "pods") {
            strategy::admit_pod(&server.store, &mut value)?;
            admission::fill_limits(&server.store, &mut value);
            admission::constrain_pod(&server.store, &mut value)?;
            admission::adjust_pod(&server.store, &mut value)?;
        }
        // Held until the service is stored, so that an address is given once.
        let addresses = kind.is("", "services").then(|| server.lock_addresses());
        if addresses.is_some() {
            strategy::allocate_address(&server.store, &mut value)?;
        }
        let user = &self.request.user;
        let warnings = admission::review_object(&server.store, user, kind, &value, None)?;
        self.validate(&value, None)?;
        admission::review_limits(&server.store, kind, &value, None)?;
        if self.request.is_dry_run() {
            let taken = server.store.get(
                &kind.table,
                object::object_namespace(&value),
                object::object_name(&value),
            );
            if taken.is_some() {
                return Err(self.exists(object::object_name(&value)));
            }
            return Ok(WrittenObject { value: Arc::new(value), warnings });
        }
        let mut names = if generated { NAMES } else { 1 };
        loop {
            let stored = convert::convert_inbound(kind, value.clone());
            let outcome = server.store.create(&kind.table, stored, |view: &StoreView<'_>| {
                self.check_namespace(&value, |table, ns, name| view.get(table, ns, name).cloned())
            });
            names -= 1;
            match outcome {
                Ok(stored) => {
                    server.after_write(kind, &stored.value);
                    let value = convert::convert_outbound(kind, &stored.value).into_owned();
                    return Ok(WrittenObject { value: Arc::new(value), warnings });
                }
                Err(CreateError::Refused(error)) => return Err(error),
                Err(CreateError::Exists) if names > 0 => {
                    let name = format!("{prefix}{}", random_suffix());
                    object::set_meta(&mut value, "name", Some(name.into()));
                }
                Err(CreateError::Exists) => return Err(self.exists(object::object_name(&value))),
            }
        }
    }

    fn exists(&self, name: &str) -> ApiError {
        ApiError::already_exists(&self.kind.group, &self.kind.plural, name)
    }

    /// New objects need a namespace that is there to stay.
    fn check_namespace(
        &self,
        value: &Value,
        get: impl Fn(&str, &str, &str) -> Option<Value>,
    ) -> Result<(), ApiError> {
        if !self.kind.namespaced {
            return Ok(());
        }
        let name = object::object_namespace(value);
        let Some(namespace) = get("namespaces", "", name) else {
            return Err(ApiError::not_found("", "namespaces", name));
        };
        if !object::is_terminating(&namespace) {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {name} because it is being terminated"
        );
        let mut error = ApiError::forbidden(
            &self.kind.group,
            &self.kind.plural,
            object::object_name(value),
            &why,
        );
        if let Some(details) = &mut error.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {name} is being terminated"),
                "field": "metadata.namespace",
            }]);
        }
        Err(error)
    }

    fn default(&self, value: &mut Value) {
        match self.kind.custom() {
            Some(custom) => schema::fill_defaults(value, custom.node()),
            None => strategy::default_object(&self.kind, value),
        }
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Result<(), ApiError> {
        let causes = strategy::validate_object(&self.kind, &self.target.subresource, value, live);
        if causes.is_empty() {
            return Ok(());
        }
        Err(self.invalid(object::object_name(value), &causes))
    }

    fn invalid(&self, name: &str, causes: &[StatusCause]) -> ApiError {
        ApiError::invalid(&self.kind.group, &self.kind.kind, name, causes)
    }

    /// Changes the object that the path names.
    pub(super) fn change(&self, change: &WriteChange<'_>) -> Result<WrittenObject, ApiError> {
        for _ in 0..ATTEMPTS {
            if let Some(written) = self.try_change(change)? {
                return Ok(written);
            }
        }
        Err(self.conflict(&self.target.name))
    }

    /// Makes one attempt; `None` if the object changed meanwhile and a retry is right.
    fn try_change(&self, change: &WriteChange<'_>) -> Result<Option<WrittenObject>, ApiError> {
        let (server, kind) = (self.server, &self.kind);
        let subresource = self.target.subresource.as_str();
        let stored = self.stored()?;
        let live = convert::convert_outbound(kind, &stored.value).into_owned();
        let now = object::now_text();
        let name = self.request.field_manager();
        let version = kind.api_version();
        let manager = self.manager(&name, &version, &now);
        let mut new = match change {
            WriteChange::Replace(value) => value.clone(),
            WriteChange::Patch(patch) => {
                let mut value = patch(&live)?;
                self.check_identity(&mut value)?;
                value
            }
            WriteChange::Apply(config, force) => {
                fields::apply_config(Some(&live), config, kind.node(), &manager, *force)?
            }
        };
        let conditional = self.check_basis(&new, &live, change)?;
        let warnings = self.screen(&mut new, !matches!(change, WriteChange::Replace(_)))?;
        self.default(&mut new);
        strategy::before_update(kind, subresource, &live, &mut new);
        if !matches!(change, WriteChange::Apply(..)) {
            fields::record_update(Some(&live), &mut new, kind.node(), &manager);
        }
        if fields::is_same_but_times(&new, &live) {
            return Ok(Some(WrittenObject { value: Arc::new(live), warnings }));
        }
        admission::review_object(&server.store, &self.request.user, kind, &new, Some(&live))?;
        self.validate(&new, Some(&live))?;
        admission::review_limits(&server.store, kind, &new, Some(&live))?;
        if self.request.is_dry_run() {
            return Ok(Some(WrittenObject { value: Arc::new(new), warnings }));
        }
        let inbound = convert::convert_inbound(kind, new);
        let done = if delete::is_deletion_complete(kind, &inbound) {
            server.store.remove(&kind.table, stored.version, inbound)
        } else {
            server.store.replace(&kind.table, stored.version, inbound)
        };
        match done {
            Ok(stored) => {
                server.after_write(kind, &stored.value);
                let value = convert::convert_outbound(kind, &stored.value).into_owned();
                Ok(Some(WrittenObject { value: Arc::new(value), warnings }))
            }
            Err(_) if conditional => Err(self.conflict(&self.target.name)),
            Err(_) => Ok(None),
        }
    }

    /// Checks UID and version that the new object is based on; true if the client named the version.
    fn check_basis(
        &self,
        new: &Value,
        live: &Value,
        change: &WriteChange<'_>,
    ) -> Result<bool, ApiError> {
        let uid = object::object_uid(new);
        if !uid.is_empty() && uid != object::object_uid(live) {
            if !matches!(change, WriteChange::Replace(_)) {
                let cause = StatusCause::invalid("metadata.uid", &uid.into(), "field is immutable");
                return Err(self.invalid(&self.target.name, &[cause]));
            }
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::object_uid(live)
            );
            return Err(ApiError::conflict_because(
                &self.kind.group,
                &self.kind.plural,
                &self.target.name,
                &why,
            ));
        }
        let version = match change {
            WriteChange::Apply(config, _) => object::object_version(config),
            WriteChange::Replace(_) | WriteChange::Patch(_) => object::object_version(new),
        };
        if version.is_empty() {
            if matches!(change, WriteChange::Replace(_))
                && !strategy::allows_unconditional_update(&self.kind)
            {
                let cause = StatusCause::invalid(
                    "metadata.resourceVersion",
                    &0.into(),
                    "must be specified for an update",
                );
                // By its resource, not by its kind: so upstream.
                let (group, plural) = (&self.kind.group, &self.kind.plural);
                return Err(ApiError::invalid(group, plural, &self.target.name, &[cause]));
            }
            return Ok(false);
        }
        if version != object::object_version(live) {
            return Err(self.conflict(&self.target.name));
        }
        // A patch carries the live version along: that alone is no condition.
        Ok(matches!(change, WriteChange::Replace(_)))
    }

    /// A configuration for server-side apply, without what this endpoint ignores.
    pub(super) fn prepare_config(&self, config: &mut Value) -> Result<(), ApiError> {
        let kind = &self.kind;
        if object::meta_field(config, "managedFields").is_some_and(|m| !m.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if let Some(path) = undeclared_field(kind, config) {
            return Err(ApiError::untyped(format!(
                "failed to create typed patch object ({}/{}; {}, Kind={}): .{path}: field not declared in schema",
                self.target.namespace,
                self.target.name,
                kind.api_version(),
                kind.kind
            )));
        }
        if let Some(meta) = config.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|_, field| !field.is_null());
        }
        match self.target.subresource.as_str() {
            "status" => {
                let name = object::object_name(config).to_owned();
                let namespace = object::meta_field(config, "namespace").cloned();
                let status = config.get("status").cloned();
                let version = object::meta_field(config, "resourceVersion").cloned();
                *config = json!({
                    "apiVersion": kind.api_version(), "kind": kind.kind,
                    "metadata": {"name": name},
                });
                object::set_meta(config, "namespace", namespace);
                object::set_meta(config, "resourceVersion", version);
                object::set_field(config, "status", status);
            }
            _ if kind.status => object::set_field(config, "status", None),
            _ => {}
        }
        Ok(())
    }

    /// The object that a configuration makes where there is none.
    pub(super) fn create_applied(&self, config: &Value) -> Result<WrittenObject, ApiError> {
        let now = object::now_text();
        let name = self.request.field_manager();
        let version = self.kind.api_version();
        let manager = self.manager(&name, &version, &now);
        let value = fields::apply_config(None, config, self.kind.node(), &manager, false)?;
        self.create_object(value, true)
    }
}
