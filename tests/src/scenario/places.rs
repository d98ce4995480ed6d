//! The position of each field in a YAML file, for mistakes that only show once the whole file is read.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A position in a file as line and column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScenarioPlace {
    /// Number of the line, from 1.
    pub line: u64,
    /// Number of the character in the line, from 1.
    pub column: u64,
}

impl From<Location> for ScenarioPlace {
    fn from(at: Location) -> Self {
        Self { line: at.line().max(1), column: at.column().max(1) }
    }
}

/// A YAML document without its values.
#[derive(Debug)]
pub enum YamlPlaces {
    /// A map: its values by key.
    Map(BTreeMap<String, Spanned<Self>>),
    /// A list: its entries in order.
    List(Vec<Spanned<Self>>),
    /// A scalar, which has no positions inside.
    Leaf,
}

impl YamlPlaces {
    /// Reads the places of a text that is known to be valid YAML.
    pub fn of(text: &str) -> Self {
        serde_saphyr::from_str(text).unwrap_or(Self::Leaf)
    }

    /// The place of the field at a path, or of its nearest ancestor that is there.
    pub fn find(&self, path: &[PlaceKey]) -> ScenarioPlace {
        let mut place = ScenarioPlace { line: 1, column: 1 };
        let mut node = self;
        for key in path {
            let next = match (node, key) {
                (Self::Map(map), PlaceKey::Name(name)) => map.get(name.as_str()),
                (Self::List(list), PlaceKey::Index(index)) => list.get(*index),
                _ => None,
            };
            let Some(next) = next else { break };
            place = next.referenced.into();
            node = &next.value;
        }
        place
    }
}

/// A step of a field's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceKey {
    /// Name of a field of a map.
    Name(String),
    /// An entry of a list, from 0.
    Index(usize),
}

impl From<&str> for PlaceKey {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<usize> for PlaceKey {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// A path as people write it: `expect.messages[2].from`; `.` for the whole file.
pub fn show_path(path: &[PlaceKey]) -> String {
    let mut shown = String::new();
    for key in path {
        match key {
            PlaceKey::Index(index) => {
                shown.extend(["[", &index.to_string(), "]"]);
            }
            PlaceKey::Name(name) if shown.is_empty() => shown.clone_from(name),
            PlaceKey::Name(name) => shown.extend([".", name]),
        }
    }
    if shown.is_empty() { ".".to_owned() } else { shown }
}

impl<'de> Deserialize<'de> for YamlPlaces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = YamlPlaces;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlPlaces, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, Spanned<YamlPlaces>>()? {
                    entries.insert(key, value);
                }
                Ok(YamlPlaces::Map(entries))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlPlaces, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(YamlPlaces::List(items))
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
            fn visit_unit<E: Error>(self) -> Result<YamlPlaces, E> {
                Ok(YamlPlaces::Leaf)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_or_the_nearest_one_above_it() {
        let places = YamlPlaces::of("a: 1\nb:\n  - {c: x, d: 1.5}\n  - null\n");
        let at = |line, column| ScenarioPlace { line, column };
        assert_eq!(places.find(&["a".into()]), at(1, 4));
        assert_eq!(places.find(&["b".into(), 0.into(), "d".into()]), at(3, 15));
        assert_eq!(places.find(&["b".into(), 0.into(), "nope".into()]), at(3, 5));
        assert_eq!(show_path(&["b".into(), 0.into(), "d".into()]), "b[0].d");
    }
}
