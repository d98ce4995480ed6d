//! Request bodies in protobuf, which kubectl's typed commands send without falling back to JSON:
//! the few kinds that those commands create.

mod messages;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use messages::{FieldType, MessageField, message_fields};

use super::object;

/// First bytes of a Kubernetes protobuf body.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting that is read.
const MAX_DEPTH: u32 = 20;

/// Reads a body; nothing if it is malformed or of a kind that is not known here.
pub(super) fn decode_body(body: &[u8]) -> Option<Value> {
    let unknown = decode_fields(body.strip_prefix(MAGIC)?)?;
    let part =
        |number: u32| unknown.iter().find(|(n, _)| *n == number).and_then(|(_, wire)| wire.bytes());
    let types = decode_fields(part(1)?)?;
    let text = |number: u32| {
        let found = types.iter().find(|(n, _)| *n == number).and_then(|(_, w)| w.bytes());
        found.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    };
    let (version, kind) = (text(1), text(2));
    let mut value = object_of(part(2).unwrap_or_default(), message_fields(kind)?, 0)?;
    object::set_field(&mut value, "apiVersion", Some(version.into()));
    object::set_field(&mut value, "kind", Some(kind.into()));
    Some(value)
}

/// A field's value on the wire.
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

fn decode_fields(mut rest: &[u8]) -> Option<Vec<(u32, WireValue<'_>)>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = decode_number(&mut rest)?;
        let value = match tag & 7 {
            0 => WireValue::Number(decode_number(&mut rest)?),
            2 => {
                let length = usize::try_from(decode_number(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                WireValue::Bytes(bytes)
            }
            // Fixed-width numbers are in none of the kinds.
            _ => return None,
        };
        fields.push((u32::try_from(tag >> 3).ok()?, value));
    }
    Some(fields)
}

fn decode_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn object_of(bytes: &[u8], known: &[MessageField], depth: u32) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut map = Map::new();
    for (number, wire) in decode_fields(bytes)? {
        let Some((_, name, kind)) = known.iter().find(|(n, ..)| *n == number) else { continue };
        match kind {
            FieldType::Texts | FieldType::Messages(_) => {
                let item = match kind {
                    FieldType::Messages(inner) => {
                        object_of(wire.bytes()?, message_fields(inner)?, depth + 1)?
                    }
                    _ => decode_text(wire.bytes()?)?.into(),
                };
                let list = map.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(item);
            }
            FieldType::TextMap | FieldType::BytesMap => {
                let (key, value) =
                    decode_entry(wire.bytes()?, matches!(kind, FieldType::BytesMap))?;
                let entries = map.entry(*name).or_insert_with(|| json!({}));
                entries.as_object_mut()?.insert(key, value);
            }
            // Upstream's encoder always writes these fields, so an empty or zero value means that it was
            // not set.
            FieldType::Text => {
                let text = decode_text(wire.bytes()?)?;
                if !text.is_empty() {
                    map.insert((*name).to_owned(), text.into());
                }
            }
            FieldType::Integer | FieldType::Boolean => {
                let WireValue::Number(number) = wire else { return None };
                let value = match kind {
                    FieldType::Boolean => Value::Bool(number != 0),
                    _ => number.cast_signed().into(),
                };
                map.insert((*name).to_owned(), value);
            }
            FieldType::Time => {
                let time = decode_time(wire.bytes()?)?;
                if !time.is_empty() {
                    map.insert((*name).to_owned(), time.into());
                }
            }
            FieldType::Message(inner) => {
                let value = object_of(wire.bytes()?, message_fields(inner)?, depth + 1)?;
                map.insert((*name).to_owned(), value);
            }
        }
    }
    Some(Value::Object(map))
}

fn decode_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn decode_entry(bytes: &[u8], binary: bool) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), &[][..]);
    for (number, wire) in decode_fields(bytes)? {
        match number {
            1 => decode_text(wire.bytes()?)?.clone_into(&mut key),
            2 => value = wire.bytes()?,
            _ => {}
        }
    }
    let value = if binary {
        base64::engine::general_purpose::STANDARD.encode(value)
    } else {
        decode_text(value)?.to_owned()
    };
    Some((key, value.into()))
}

/// A moment as text; empty for the zero one, which stands for none.
fn decode_time(bytes: &[u8]) -> Option<String> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, wire) in decode_fields(bytes)? {
        let WireValue::Number(value) = wire else { return None };
        match number {
            1 => seconds = value.cast_signed(),
            2 => nanos = i32::try_from(value).ok()?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Some(String::new());
    }
    let at = jiff::Timestamp::new(seconds, nanos).ok()?;
    let text = if nanos == 0 {
        object::whole_seconds(at)
    } else {
        at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    #[test]
    fn a_secret_is_read() {
        let meta = [field(1, b"s"), field(2, b""), field(8, b"")].concat();
        let data = [field(1, b"k"), field(2, b"\xff")].concat();
        let secret = [field(1, &meta), field(2, &data), field(3, b"Opaque")].concat();
        let types = [field(1, b"v1"), field(2, b"Secret")].concat();
        let body = [MAGIC.to_vec(), field(1, &types), field(2, &secret)].concat();
        assert_eq!(
            decode_body(&body).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": "s"}, "data": {"k": "/w=="},
            })
        );
        assert!(decode_body(&body[..body.len() - 1]).is_none());
        assert!(decode_body(b"{}").is_none());
    }
}
