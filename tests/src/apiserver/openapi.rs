//! OpenAPI v3: an index, and a document for each group and version with the paths and schemas that
//! clients look into (explain, validation, merge keys).

mod proto;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use super::ServerState;
use super::definitions::{DEFINITIONS, OBJECT_META};
use super::kinds::{KindShape, ServedKind};
use super::render::{self, ApiResponse};
use super::request::ApiRequest;
use super::schema::REF_PREFIX;
use super::status::ApiError;

/// Answers a path below `/openapi`.
pub(super) fn answer_openapi(
    server: &ServerState,
    request: &ApiRequest,
) -> Result<ApiResponse, ApiError> {
    let path = request.path.trim_matches('/');
    let body = match path.strip_prefix("openapi/") {
        Some("v3") => openapi_index(server),
        Some("v2") if proto::wants_proto(request.header("accept")) => {
            let kinds = server.kinds.all();
            let document = proto::proto_document(kinds.iter().map(AsRef::as_ref));
            return Ok(render::bytes_answer(200, proto::MEDIA_TYPE, document));
        }
        Some("v2") => swagger_document(server),
        Some(rest) => {
            let Some(path) = rest.strip_prefix("v3/") else { return Err(ApiError::unknown_path()) };
            let kinds = server.kinds.all();
            let kinds: Vec<&ServedKind> =
                kinds.iter().map(AsRef::as_ref).filter(|k| kind_root(k) == path).collect();
            if kinds.is_empty() {
                return Err(ApiError::unknown_path());
            }
            openapi_document(&kinds)
        }
        None => return Err(ApiError::unknown_path()),
    };
    Ok(render::json_answer(200, &body))
}

/// The older form: the definitions of all kinds in one document, without paths.
fn swagger_document(server: &ServerState) -> Value {
    let mut schemas = Map::new();
    for kind in server.kinds.all() {
        let name = define_kind(&kind, &mut schemas);
        include_definition(&name, &mut schemas);
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([kind_identity(&kind)]);
        }
    }
    include_definition(OBJECT_META, &mut schemas);
    let mut definitions = Value::Object(schemas);
    repoint_references(&mut definitions);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": super::VERSION },
        "paths": {},
        "definitions": definitions,
    })
}

/// References into the older form; `allOf` of one reference is that reference.
fn repoint_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let single = map.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
            if let Some(reference) = single.and_then(|all| all[0].get("$ref")).cloned() {
                map.remove("allOf");
                map.insert("$ref".to_owned(), reference);
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                *reference = reference.replace(REF_PREFIX, "#/definitions/");
            }
            map.values_mut().for_each(repoint_references);
        }
        Value::Array(items) => items.iter_mut().for_each(repoint_references),
        _ => {}
    }
}

/// The name of a kind's definition, which is added where it is a custom one.
fn define_kind(kind: &ServedKind, schemas: &mut Map<String, Value>) -> String {
    match &kind.shape {
        KindShape::Core(definition) => definition.clone(),
        KindShape::Custom(version) => {
            let mut domain: Vec<&str> = kind.group.split('.').collect();
            domain.reverse();
            let name = format!("{}.{}.{}", domain.join("."), kind.version, kind.kind);
            schemas.insert(name.clone(), version.schema.clone());
            name
        }
    }
}

/// `api/v1` or `apis/GROUP/VERSION`.
fn kind_root(kind: &ServedKind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn openapi_index(server: &ServerState) -> Value {
    let kinds = server.kinds.all();
    let mut paths = Map::new();
    for kind in &kinds {
        let root = kind_root(kind);
        if paths.contains_key(&root) {
            continue;
        }
        let mut hasher = DefaultHasher::new();
        for other in kinds.iter().filter(|k| k.group == kind.group && k.version == kind.version) {
            other.plural.hash(&mut hasher);
            if let KindShape::Custom(version) = &other.shape {
                version.schema.to_string().hash(&mut hasher);
            }
        }
        let url = format!("/openapi/v3/{root}?hash={:016X}", hasher.finish());
        paths.insert(root, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

fn openapi_document(kinds: &[&ServedKind]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for kind in kinds {
        let name = define_kind(kind, &mut schemas);
        include_definition(&name, &mut schemas);
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([kind_identity(kind)]);
        }
        add_paths(kind, &name, &mut paths);
    }
    include_definition(OBJECT_META, &mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": super::VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn kind_identity(kind: &ServedKind) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

/// Adds a definition and all that it refers to.
fn include_definition(name: &str, schemas: &mut Map<String, Value>) {
    if !schemas.contains_key(name) {
        let Some(definition) = DEFINITIONS.get(name) else { return };
        schemas.insert(name.to_owned(), definition.clone());
    }
    let mut names = BTreeSet::new();
    if let Some(schema) = schemas.get(name) {
        find_references(schema, &mut names);
    }
    for name in names {
        if !schemas.contains_key(&name) {
            include_definition(&name, schemas);
        }
    }
}

fn find_references(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str)
                && let Some(name) = reference.strip_prefix(REF_PREFIX)
            {
                names.insert(name.to_owned());
            }
            map.values().for_each(|child| find_references(child, names));
        }
        Value::Array(items) => items.iter().for_each(|item| find_references(item, names)),
        _ => {}
    }
}

/// Path template of a kind's collection.
fn collection_path(kind: &ServedKind) -> String {
    if kind.namespaced {
        format!("/{}/namespaces/{{namespace}}/{}", kind_root(kind), kind.plural)
    } else {
        format!("/{}/{}", kind_root(kind), kind.plural)
    }
}

fn add_paths(kind: &ServedKind, schema: &str, paths: &mut Map<String, Value>) {
    let collection = collection_path(kind);
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let writing = ["dryRun", "fieldManager", "fieldValidation"].map(parameter);
    let content = json!({
        "application/json": {"schema": {"$ref": format!("{REF_PREFIX}{schema}")}},
    });
    let operation = |action: &str, parameters: &[Value], body: bool| {
        let mut operation = json!({
            "operationId": format!("{action}{}{}", kind.version, kind.kind),
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_identity(kind),
        });
        if body {
            operation["requestBody"] = json!({ "content": content, "required": true });
        }
        operation
    };
    let mut all = json!({ "post": operation("post", &writing, true) });
    if !kind.virtual_only {
        all["get"] = operation("list", &[], false);
        all["delete"] = operation("deletecollection", &writing[..1], false);
        let mut patching = writing.to_vec();
        patching.push(parameter("force"));
        let one = json!({
            "get": operation("get", &[], false),
            "put": operation("put", &writing, true),
            "patch": operation("patch", &patching, true),
            "delete": operation("delete", &writing[..1], false),
        });
        paths.insert(format!("{collection}/{{name}}"), one);
    }
    paths.insert(collection, all);
}
