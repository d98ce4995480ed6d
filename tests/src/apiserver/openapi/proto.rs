//! The older form in protobuf, which kubectl asks for where the newer one does not tell: whether an
//! unusual kind, such as `List`, is checked by the server. Only the paths and the parameters of
//! `patch` are in it, for nothing else is read there.
//!
//! Field numbers are those of gnostic's `OpenAPIv2.proto`.

use super::{Kind, collection};

/// What is in `Accept` when this form is wanted.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The parameters of `patch`.
const PARAMETERS: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];

/// Whether a client asks for this form, in either spelling.
pub fn wanted(accept: &str) -> bool {
    accept.contains("com.github.proto-openapi.spec.v2")
}

/// The document.
pub fn document<'a>(kinds: impl Iterator<Item = &'a Kind>) -> Vec<u8> {
    let info = [text(1, "Kubernetes"), text(2, crate::apiserver::VERSION)].concat();
    let writable = kinds.filter(|kind| !kind.virtual_only);
    let paths = writable.map(|kind| field(2, &path(kind))).collect::<Vec<_>>().concat();
    [text(1, "2.0"), field(2, &info), field(8, &paths)].concat()
}

fn path(kind: &Kind) -> Vec<u8> {
    let parameters: Vec<u8> = PARAMETERS.iter().flat_map(|name| field(8, &query(name))).collect();
    let identity =
        format!("group: \"{}\"\nversion: {}\nkind: {}\n", kind.group, kind.version, kind.kind);
    let extension =
        [text(1, "x-kubernetes-group-version-kind"), field(2, &text(2, &identity))].concat();
    let patch = [parameters, field(13, &extension)].concat();
    let name = format!("{}/{{name}}", collection(kind));
    [text(1, &name), field(2, &field(7, &patch))].concat()
}

/// A parameter in the query.
fn query(name: &str) -> Vec<u8> {
    let schema = [text(2, "query"), text(4, name), text(6, "string")].concat();
    // Not in the body; in the query.
    field(1, &field(2, &field(3, &schema)))
}

fn text(number: u8, text: &str) -> Vec<u8> {
    field(number, text.as_bytes())
}

/// A field with a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend_from_slice(bytes);
    out
}
