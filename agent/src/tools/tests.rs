//! The tools as a model is offered them.

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
    ] {
        assert_eq!(keys(name, pointer), expected, "{name}");
    }
}

/// Every argument of every tool, in the order of the structs: it is what models are sent, and fill in from the first to
/// the last.
#[test]
fn the_first_key_of_each_schema_is_the_first_field_of_its_struct() {
    let mut seen = 0;
    for tool in all() {
        let (whole, told) = (tool.schema(), tool.spec()["function"]["parameters"].clone());
        let named = |schema: &Value| {
            let properties = schema["properties"].as_object();
            properties.into_iter().flat_map(|all| all.keys().cloned()).collect::<Vec<_>>()
        };
        let (known, told) = (named(&whole), named(&told));
        // Other names of an argument are fields of no schema.
        let declared =
            tool.declared().iter().filter(|field| known.iter().any(|one| one == **field));
        let declared: Vec<_> = declared.copied().collect();
        assert_eq!(known, declared, "{}", tool.name());
        let offered: Vec<_> =
            declared.into_iter().filter(|field| told.iter().any(|one| one == field)).collect();
        assert_eq!(told, offered, "{}", tool.name());
        seen += told.len();
    }
    assert!(seen > 100, "{seen} arguments");
}

/// Reads nothing, and takes down which fields a struct asks for.
struct FieldProbe<'a>(&'a mut &'static [&'static str]);

impl<'de> serde::Deserializer<'de> for FieldProbe<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("it is a probe"))
    }

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields of a struct, as it declares them.
pub(super) fn declared_fields<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(FieldProbe(&mut fields));
    fields
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
