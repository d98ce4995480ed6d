//! The older form in protobuf, which kubectl asks for where the newer one does not tell: whether an
//! unusual kind, such as `List`, is checked by the server. Only the paths and the parameters of
//! `patch` are in it, for nothing else is read there.
//!
//! Field numbers are those of gnostic's `OpenAPIv2.proto`.

use super::{ServedKind, collection_path};

/// Media type in `Accept` by which a client asks for this form.
pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The parameters of `patch`.
const PARAMETERS: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];

/// True if a client asks for this form, in either spelling.
pub(super) fn wants_proto(accept: &str) -> bool {
    accept.contains("com.github.proto-openapi.spec.v2")
}

/// Encodes the document as protobuf.
pub(super) fn proto_document<'a>(kinds: impl Iterator<Item = &'a ServedKind>) -> Vec<u8> {
    let info = [proto_text(1, "Kubernetes"), proto_text(2, crate::apiserver::VERSION)].concat();
    let writable = kinds.filter(|kind| !kind.virtual_only);
    let paths = writable.map(|kind| proto_field(2, &proto_path(kind))).collect::<Vec<_>>().concat();
    [proto_text(1, "2.0"), proto_field(2, &info), proto_field(8, &paths)].concat()
}

fn proto_path(kind: &ServedKind) -> Vec<u8> {
    let parameters: Vec<u8> =
        PARAMETERS.iter().flat_map(|name| proto_field(8, &proto_query(name))).collect();
    let identity =
        format!("group: \"{}\"\nversion: {}\nkind: {}\n", kind.group, kind.version, kind.kind);
    let extension = [
        proto_text(1, "x-kubernetes-group-version-kind"),
        proto_field(2, &proto_text(2, &identity)),
    ]
    .concat();
    let patch = [parameters, proto_field(13, &extension)].concat();
    let name = format!("{}/{{name}}", collection_path(kind));
    [proto_text(1, &name), proto_field(2, &proto_field(7, &patch))].concat()
}

/// A parameter in the query.
fn proto_query(name: &str) -> Vec<u8> {
    let schema = [proto_text(2, "query"), proto_text(4, name), proto_text(6, "string")].concat();
    // Not in the body; in the query.
    proto_field(1, &proto_field(2, &proto_field(3, &schema)))
}

fn proto_text(number: u8, text: &str) -> Vec<u8> {
    proto_field(number, text.as_bytes())
}

/// Encodes a length-delimited field.
fn proto_field(number: u8, bytes: &[u8]) -> Vec<u8> {
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
