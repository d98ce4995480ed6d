//! Impersonation: a caller acts as another user, by the kind of user and for one action
//! (`impersonate-on:…`, since Kubernetes 1.36), or for everything (`impersonate`).

use super::auth::{ApiUser, RequestAttributes, authorize_user};
use crate::apiserver::request::ApiRequest;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

const GROUP: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The user whose rights count.
pub(crate) fn effective_user(
    store: &ObjectStore,
    request: &ApiRequest,
    caller: ApiUser,
) -> Result<ApiUser, ApiError> {
    let wanted = asked_for(request)?;
    if wanted.name.is_empty() {
        return Ok(caller);
    }
    let mut first = None;
    for mode in impersonation_modes(&wanted, &caller) {
        match attempt_mode(store, &caller, &wanted, mode, &request.attributes()) {
            Ok(user) => return Ok(user),
            // The error of the first mode that was tried is the one reported.
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(ApiError::unauthorized))
}

/// Reads the wanted user from the `Impersonate-*` headers.
fn asked_for(request: &ApiRequest) -> Result<ApiUser, ApiError> {
    let mut wanted = ApiUser {
        name: request.header("impersonate-user").to_owned(),
        uid: request.header("impersonate-uid").to_owned(),
        ..ApiUser::default()
    };
    for (header, value) in &request.headers {
        let Ok(value) = value.to_str() else { continue };
        if header == "impersonate-group" {
            wanted.groups.push(value.to_owned());
        } else if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            let decoded = url::form_urlencoded::parse(key.as_bytes()).next();
            let key = decoded.map(|(key, _)| key.into_owned()).unwrap_or_default();
            wanted.extra.entry(key).or_default().push(value.to_owned());
        }
    }
    if wanted.name.is_empty() && !is_name_alone(&wanted) {
        return Err(ApiError::bad_request(
            "requested attributes of a user without impersonating a user name",
        ));
    }
    Ok(wanted)
}

fn is_name_alone(user: &ApiUser) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The modes that apply, in the order in which they are tried; the empty one is the old one.
fn impersonation_modes(wanted: &ApiUser, caller: &ApiUser) -> Vec<&'static str> {
    let (alone, node) = (is_name_alone(wanted), node_of(&wanted.name));
    let account = account_of(&wanted.name);
    let beside = caller.extra.get(NODE_NAME).is_some_and(|own| match (&own[..], node) {
        ([own], Some(node)) => own == node,
        _ => false,
    });
    let all = [
        ("associated-node", alone && beside && account_of(&caller.name).is_some()),
        ("arbitrary-node", alone && node.is_some()),
        ("serviceaccount", alone && account.is_some()),
        ("user-info", node.is_none() && account.is_none()),
        ("", true),
    ];
    all.into_iter().filter(|(_, applies)| *applies).map(|(mode, _)| mode).collect()
}

fn node_of(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:").filter(|node| !node.is_empty())
}

fn account_of(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

fn attempt_mode(
    store: &ObjectStore,
    caller: &ApiUser,
    wanted: &ApiUser,
    mode: &str,
    action: &RequestAttributes,
) -> Result<ApiUser, ApiError> {
    let may = |attributes: RequestAttributes| {
        if authorize_user(store, caller, &attributes) {
            return Ok(());
        }
        let why = attributes.refusal(caller);
        Err(if attributes.resource.is_empty() {
            ApiError::forbidden_path(&why)
        } else {
            ApiError::forbidden(&attributes.group, &attributes.resource, &attributes.name, &why)
        })
    };
    let constrained = !mode.is_empty();
    if constrained {
        let verb = format!("impersonate-on:{mode}:{}", action.verb);
        may(RequestAttributes { verb, ..action.clone() })?;
    }
    let verb = if constrained { format!("impersonate:{mode}") } else { "impersonate".to_owned() };
    let old = if constrained { GROUP } else { "" };
    let about = |group: &str, resource: &str, name: &str| RequestAttributes {
        verb: verb.clone(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..RequestAttributes::default()
    };
    let mut user = wanted.clone();
    match (account_of(&wanted.name), node_of(&wanted.name)) {
        (Some((namespace, name)), _) => {
            let attributes = about(old, "serviceaccounts", name);
            may(RequestAttributes { namespace: namespace.to_owned(), ..attributes })?;
            if wanted.groups.is_empty() {
                user.groups.push("system:serviceaccounts".to_owned());
                user.groups.push(format!("system:serviceaccounts:{namespace}"));
            }
        }
        (_, Some(node)) if constrained => {
            // Of its own node somebody may be it on whichever it is.
            let name = if mode == "associated-node" { "*" } else { node };
            may(about(old, "nodes", name))?;
            user.groups = vec!["system:nodes".to_owned()];
        }
        _ => may(about(old, "users", &wanted.name))?,
    }
    if !wanted.uid.is_empty() {
        may(about(GROUP, "uids", &wanted.uid))?;
    }
    for group in &wanted.groups {
        if constrained && group == "system:masters" {
            let why = "impersonating the system:masters group is not allowed";
            return Err(ApiError::forbidden(old, "groups", group, why));
        }
        may(about(old, "groups", group))?;
    }
    for (key, value) in wanted.extra.iter().flat_map(|(k, all)| all.iter().map(move |v| (k, v))) {
        let attributes = about(GROUP, "userextras", value);
        may(RequestAttributes { subresource: key.clone(), ..attributes })?;
    }
    let implied = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    let known = user.groups.iter().any(|group| group == implied || group == UNAUTHENTICATED);
    if !known {
        user.groups.push(implied.to_owned());
    }
    Ok(user)
}
