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
    for (name, first) in [
        ("Read", "path"),
        ("Bash", "command"),
        ("Grep", "pattern"),
        ("Glob", "pattern"),
        ("GitCommit", "message"),
        ("SendMessage", "message"),
        ("CloseThread", "summary"),
    ] {
        let all = keys(name, "/properties");
        assert_eq!(all.split(' ').next(), Some(first), "{name}: {all}");
    }
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
