//! The tools as a model is offered them.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde::de::{self, IntoDeserializer as _, Visitor};

use super::*;

#[test]
fn a_role_has_the_tools_it_is_given_and_no_other() {
    let tools = RoleTools::new(&["Read".into(), "SendMessage".into(), "Teleport".into()]);
    let names: Vec<_> = tools.specs().iter().map(|s| s["function"]["name"].clone()).collect();
    assert_eq!(names, ["Read", "SendMessage"]);
    let Err(ToolFailure::Fault(text)) = tools.find("Bash") else { panic!() };
    assert_eq!(text, "there is no tool `Bash`; you have Read, SendMessage");
}

#[test]
fn arguments_stand_in_the_order_in_which_they_are_declared() {
    let tools = RoleTools::new(&codebutler_wire::TOOLS.map(str::to_owned));
    let keys = |name: &str, pointer: &str| {
        let specs = tools.specs();
        let spec = specs.iter().find(|spec| spec["function"]["name"] == name).unwrap();
        let properties = spec["function"]["parameters"].pointer(pointer).unwrap();
        properties.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    for (name, pointer, expected) in [
        ("Edit", "/properties", "path edits"),
        ("Edit", "/properties/edits/items/properties", "old new all"),
        ("Write", "/properties", "path content"),
        ("Todo", "/properties/items/items/properties", "text state"),
        ("GHCreatePR", "/properties", "title body"),
        ("PlanReview", "/properties/tests/items/properties", "what kind present"),
    ] {
        assert_eq!(keys(name, pointer), expected, "{name}");
    }
}

/// Every argument of every tool and of the objects in it, in the order of the structs: it is what models are sent, and
/// fill in from the first to the last.
#[test]
fn the_first_key_of_each_schema_is_the_first_field_of_its_struct() {
    let (mut seen, mut nested) = (0, 0);
    for tool in all() {
        let (whole, told) = (tool.schema(), tool.spec()["function"]["parameters"].clone());
        let declared = tool.declared();
        let mut places = Vec::new();
        find_objects(&whole, "", &mut places);
        for place in places {
            let about = format!("{} at `{place}`", tool.name());
            let fields = declared.iter().find(|(at, _)| *at == place);
            let (_, fields) =
                fields.unwrap_or_else(|| panic!("{about} is no struct: {declared:?}"));
            let known = keys_at(&whole, &place);
            // Other names of an argument are fields of no schema.
            let own: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            let own: Vec<String> = own.into_iter().filter(|field| known.contains(field)).collect();
            assert_eq!(known, own, "{about}");
            let told = keys_at(&told, &place);
            let offered: Vec<String> =
                own.into_iter().filter(|field| told.contains(field)).collect();
            assert_eq!(told, offered, "{about}");
            seen += told.len();
            nested += usize::from(!place.is_empty());
        }
    }
    assert!(seen > 100 && nested > 10, "{seen} arguments, {nested} objects among them");
}

/// Pointers to the objects of a schema, itself included.
fn find_objects(schema: &Value, at: &str, found: &mut Vec<String>) {
    let properties = schema["properties"].as_object();
    if properties.is_some_and(|properties| !properties.is_empty()) {
        found.push(at.to_owned());
    }
    for (name, property) in properties.into_iter().flatten() {
        find_objects(property, &format!("{at}/properties/{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        find_objects(items, &format!("{at}/items"), found);
    }
}

/// The names of an object's fields in a schema; none where it is not shown.
fn keys_at(schema: &Value, place: &str) -> Vec<String> {
    let object = schema.pointer(place).and_then(|object| object["properties"].as_object());
    object.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

/// The fields of each struct, with the place of its object in the schema.
type DeclaredFields = Vec<(String, &'static [&'static str])>;

/// Reads something that fits a schema, and takes down which fields each struct asks for.
struct FieldProbe<'a> {
    schema: &'a Value,
    at: String,
    found: &'a RefCell<DeclaredFields>,
}

impl FieldProbe<'_> {
    fn word(&self) -> &str {
        self.schema["enum"][0].as_str().unwrap_or("1")
    }
}

impl<'de> de::Deserializer<'de> for FieldProbe<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.schema["type"].as_str() {
            Some("boolean") => visitor.visit_bool(true),
            Some("integer" | "number") => visitor.visit_u64(1),
            Some("array") => {
                let at = format!("{}/items", self.at);
                let item = FieldProbe { schema: &self.schema["items"], at, found: self.found };
                visitor.visit_seq(OneItem(Some(item)))
            }
            Some("string") => visitor.visit_str(self.word()),
            Some("object") => {
                let left = VecDeque::new();
                visitor.visit_map(EachField { probe: self, left, value: None })
            }
            _ => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.found.borrow_mut().push((self.at.clone(), fields));
        let known = keys_at(self.schema, "");
        let left = fields.iter().filter(|field| known.iter().any(|one| one == *field)).copied();
        visitor.visit_map(EachField { probe: self, left: left.collect(), value: None })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let word: de::value::StrDeserializer<'_, Self::Error> = self.word().into_deserializer();
        visitor.visit_enum(word)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct OneItem<'a>(Option<FieldProbe<'a>>);

impl<'de> de::SeqAccess<'de> for OneItem<'_> {
    type Error = de::value::Error;

    fn next_element_seed<S: de::DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Self::Error> {
        self.0.take().map(|item| seed.deserialize(item)).transpose()
    }
}

/// The fields of a struct that its schema has.
struct EachField<'a> {
    probe: FieldProbe<'a>,
    left: VecDeque<&'static str>,
    value: Option<&'static str>,
}

impl<'de> de::MapAccess<'de> for EachField<'_> {
    type Error = de::value::Error;

    fn next_key_seed<S: de::DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Self::Error> {
        self.value = self.left.pop_front();
        let key = |name: &'static str| -> de::value::StrDeserializer<'static, Self::Error> {
            name.into_deserializer()
        };
        self.value.map(|name| seed.deserialize(key(name))).transpose()
    }

    fn next_value_seed<S: de::DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, Self::Error> {
        let name = self.value.unwrap_or_default();
        seed.deserialize(FieldProbe {
            schema: &self.probe.schema["properties"][name],
            at: format!("{}/properties/{name}", self.probe.at),
            found: self.probe.found,
        })
    }
}

/// The fields of a struct and of those in it, as they declare them.
pub(super) fn declared_fields<T: DeserializeOwned>(schema: &Value) -> DeclaredFields {
    let found = RefCell::new(Vec::new());
    let probe = FieldProbe { schema, at: String::new(), found: &found };
    // Read to its end, or not all structs were asked.
    if let Err(error) = T::deserialize(probe) {
        panic!("{error}: {schema}");
    }
    found.into_inner()
}

#[test]
fn every_tool_has_a_usable_spec() {
    let names: Vec<String> = all().map(|tool| tool.name().to_owned()).collect();
    // What an AgentRole may allow is what there is.
    assert_eq!(names, codebutler_wire::TOOLS);
    for spec in RoleTools::new(&names).specs() {
        let function = &spec["function"];
        assert!(function["description"].as_str().is_some_and(|d| d.len() > 20), "{spec}");
        assert_eq!(function["parameters"]["type"], "object", "{spec}");
        assert!(!spec.to_string().contains("$ref"), "{spec}");
        assert!(!spec.to_string().contains("null"), "{spec}");
    }
}
