use super::*;

const ALL: [SchemaDialect; 4] = [
    SchemaDialect::OpenAi,
    SchemaDialect::Anthropic,
    SchemaDialect::Moonshot,
    SchemaDialect::Gemini,
];

fn clean(schema: Value, dialect: SchemaDialect) -> CleanSchema {
    let Value::Object(schema) = schema else { panic!("{schema}") };
    clean_schema(&schema, dialect, SchemaBounds::default())
}

fn argument(schema: Value, dialect: SchemaDialect) -> Value {
    let mut whole = json!({"type": "object", "properties": {}});
    whole["properties"]["a"] = schema;
    clean(whole, dialect).schema["properties"]["a"].take()
}

#[test]
fn an_object_stands_at_the_top_whatever_the_server_wrote() {
    for schema in [
        json!({}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"type": "null"}),
        json!({"type": ["object", "null"], "nullable": true}),
    ] {
        for dialect in ALL {
            assert_eq!(
                clean(schema.clone(), dialect).schema,
                json!({"type": "object", "properties": {}})
            );
        }
    }
}

#[test]
fn references_are_replaced_and_those_that_hold_themselves_are_left_open() {
    let schema = json!({
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node", "description": "the root"}, "far": {"$ref": "https://x/y.json"}},
        "$defs": {"Node": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}}
    });
    let cleaned = clean(schema, SchemaDialect::OpenAi);
    let node = &cleaned.schema["properties"]["node"];
    assert_eq!(node["description"], "the root");
    assert_eq!(node["properties"], json!({"name": {"type": "string"}, "next": {}}));
    assert_eq!(cleaned.schema.get("$defs"), None);
    let notes: Vec<_> = cleaned.notes.into_iter().collect();
    assert_eq!(
        notes,
        ["references to somewhere else are left open", "types that hold themselves are left open"]
    );
    let encoded = json!({"properties": {"a": {"$ref": "#/definitions/My%20Type~1x"}}, "definitions": {"My Type/x": {"type": "integer"}}});
    assert_eq!(
        clean(encoded, SchemaDialect::Gemini).schema["properties"]["a"],
        json!({"type": "integer"})
    );
}

#[test]
fn a_schema_that_doubles_with_each_reference_stays_small() {
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = format!("#/$defs/L{}", level + 1);
        definitions.insert(
            format!("L{level}"),
            json!({"type": "object", "properties": {"a": {"$ref": next}, "b": {"$ref": next}}}),
        );
    }
    let schema = json!({"properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": definitions});
    let cleaned = clean(schema, SchemaDialect::OpenAi);
    assert!(cleaned.schema.to_string().len() < 20_000);
    assert!(cleaned.notes.iter().any(|note| note.contains("too many")), "{:?}", cleaned.notes);
}

#[test]
fn unions_at_the_top_become_one_object() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"id": {"type": "string"}, "x": {"type": "number"}}, "required": ["id", "x"], "additionalProperties": false},
        {"$ref": "#/$defs/B"}], "$defs": {"B": {"properties": {"id": {"type": "string"}, "y": {}}, "required": ["id"]}}});
    let cleaned = clean(schema, SchemaDialect::Anthropic).schema;
    assert_eq!(cleaned["required"], json!(["id"]));
    assert_eq!(cleaned["properties"].as_object().unwrap().len(), 3);
    assert!(
        cleaned.get("oneOf").is_none() && cleaned.get("additionalProperties").is_none(),
        "{cleaned}"
    );
    let all = json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]});
    assert_eq!(clean(all, SchemaDialect::OpenAi).schema["required"], json!(["a", "b"]));
}

#[test]
fn unions_in_unions_and_choices_do_not_reach_the_top() {
    let object = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let (a, b, c) = (object("a"), object("b"), object("c"));
    let union = json!({"anyOf": [a, b]});
    for (schema, expected) in [
        (json!({"anyOf": [union, c]}), &["a", "b", "c"][..]),
        (json!({"oneOf": [{"allOf": [a, {"oneOf": [b, c]}]}, {"type": "null"}]}), &["a", "b", "c"]),
        (json!({"oneOf": [{"$ref": "#/$defs/U"}], "$defs": {"U": union}}), &["a", "b"]),
        (
            json!({"anyOf": [{"$ref": "#/$defs/X"}, b], "$defs": {"X": {"$ref": "#/$defs/My%20Y"}, "My Y": union}}),
            &["a", "b"],
        ),
        (json!({"$ref": "#/$defs/My%20Y", "$defs": {"My Y": union}}), &["a", "b"]),
        (json!({"anyOf": [{"$ref": "#"}, c]}), &["c"]),
        (json!({"anyOf": [a, {"type": "string", "enum": ["x"]}]}), &["a"]),
        (
            json!({"type": "object", "properties": {"a": {}}, "enum": [{"a": 1}], "const": {}}),
            &["a"],
        ),
        (json!({"$dynamicRef": "#/$defs/U", "$defs": {"U": union}}), &[]),
    ] {
        for dialect in ALL {
            let cleaned = clean(schema.clone(), dialect).schema;
            let fields = cleaned.as_object().unwrap();
            let allowed = ["type", "properties", "required", "additionalProperties"];
            assert!(fields.keys().all(|key| allowed.contains(&&**key)), "{cleaned} for {schema}");
            let names = fields["properties"].as_object().unwrap().keys();
            assert_eq!(names.collect::<Vec<_>>(), expected, "{schema}");
            assert_eq!(fields["type"], "object");
        }
    }
    // Each branch names all the others.
    let wide = json!({"anyOf": vec![json!({"$ref": "#"}); 200]});
    assert_eq!(clean(wide, SchemaDialect::OpenAi).schema["properties"], json!({}));
}

#[test]
fn each_branch_of_a_union_at_the_top_can_be_chosen() {
    let branch = |action: Value, value: Value| json!({"type": "object", "properties": {"action": action, "value": value}, "required": ["action"]});
    let named =
        |action: &str| json!({"type": "string", "const": action, "description": "What to do."});
    let union = json!({"anyOf": [
        branch(named("add"), json!({"type": "string"})),
        branch(named("remove"), json!({"type": "integer"})),
        branch(json!({"type": "string", "enum": ["move", "add"]}), json!({"type": "integer"})),
    ]});
    let cleaned = clean(union.clone(), SchemaDialect::Anthropic).schema;
    let action = &cleaned["properties"]["action"];
    assert_eq!(action["enum"], json!(["add", "remove", "move"]), "{cleaned}");
    assert_eq!(
        (&action["type"], &action["description"]),
        (&json!("string"), &json!("What to do."))
    );
    let value = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    assert_eq!(
        (&cleaned["properties"]["value"], &cleaned["required"]),
        (&value, &json!(["action"]))
    );
    // What holds for all branches stays as it is, and too many alternatives are left open.
    let mut outer = union;
    outer["properties"] = json!({"action": {"type": "string", "maxLength": 9}});
    let cleaned = clean(outer, SchemaDialect::Anthropic).schema;
    assert_eq!(cleaned["properties"]["action"], json!({"type": "string", "maxLength": 9}));
    let many =
        (0..50).map(|most| json!({"properties": {"a": {"type": "string", "maxLength": most}}}));
    let cleaned = clean(json!({"oneOf": many.collect::<Vec<_>>()}), SchemaDialect::OpenAi).schema;
    assert_eq!(cleaned["properties"]["a"], json!({}));
}

#[test]
fn a_union_stands_alone_with_the_types_of_its_branches() {
    let object = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let both =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let mut either = both.clone();
    either["anyOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let mut within = both.clone();
    within["allOf"] = json!([{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]);
    let mut wider = object("a");
    wider["oneOf"] = json!([object("b"), {"required": ["a"]}]);
    let mut list = json!({"type": "array", "items": {"type": "string"}});
    list["anyOf"] = json!([{"minItems": 2}, {"maxItems": 1}]);
    for (schema, expected) in [
        (
            json!({"type": "string", "anyOf": [{"maxLength": 2}, {"enum": ["all"]}, {"title": "T"}]}),
            json!({"anyOf": [
                {"type": "string", "maxLength": 2}, {"type": "string", "enum": ["all"]}, {"title": "T", "type": "string"},
            ]}),
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"a": {"type": "string"}}}, object("b")]}),
            json!({"oneOf": [object("a"), object("b")]}),
        ),
        (either, both.clone()),
        (within, both.clone()),
        (
            json!({"allOf": [object("a")], "anyOf": [object("b"), {"required": ["a"]}]}),
            both.clone(),
        ),
        (wider, both),
        (
            json!({"type": "string", "anyOf": [{"anyOf": [{"maxLength": 2}, {"enum": ["all"]}]}]}),
            json!({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "enum": ["all"]}]}),
        ),
        (list, json!({"type": "array", "items": {"type": "string"}})),
        (json!({"anyOf": [{"not": {}}, {"type": "string"}]}), json!({"type": "string"})),
        (
            json!({"type": "object", "additionalProperties": {}}),
            json!({"type": "object", "properties": {}}),
        ),
    ] {
        for dialect in [SchemaDialect::OpenAi, SchemaDialect::Anthropic] {
            assert_eq!(argument(schema.clone(), dialect), expected, "{schema}");
        }
    }
}

#[test]
fn types_are_given_as_each_provider_takes_them() {
    use SchemaDialect::{Gemini, OpenAi};
    for (schema, dialect, expected) in [
        (json!({"type": ["string", "null"]}), OpenAi, json!({"type": ["string", "null"]})),
        (json!({"type": ["string", "null"]}), Gemini, json!({"type": "string", "nullable": true})),
        (
            json!({"type": ["boolean", "string"]}),
            Gemini,
            json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
        ),
        (json!({"type": "any"}), OpenAi, json!({})),
        (
            json!({"type": "any"}),
            Gemini,
            json!({"type": "string", "description": "any JSON, as text"}),
        ),
        (
            json!({"type": ["object", "string", "null"], "description": "A filter."}),
            Gemini,
            json!({"type": "string", "description": "A filter. (a JSON object, as text)", "nullable": true}),
        ),
        (
            json!({"type": ["object", "array"]}),
            Gemini,
            json!({
                "description": "a JSON object, as text",
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
            }),
        ),
        (json!({"enum": ["a", "a"]}), OpenAi, json!({"type": "string", "enum": ["a"]})),
        (json!(true), OpenAi, json!({})),
        (json!({"enum": ["a", "b"]}), OpenAi, json!({"type": "string", "enum": ["a", "b"]})),
        (
            json!({"enum": [1, 2], "type": "integer"}),
            Gemini,
            json!({"type": "integer", "description": "One of: 1, 2."}),
        ),
        (json!({"const": "x"}), Gemini, json!({"type": "string", "enum": ["x"]})),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}),
            Gemini,
            json!({"type": "string", "nullable": true}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            OpenAi,
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ),
        (json!({"type": "array"}), OpenAi, json!({"type": "array", "items": {}})),
        (
            json!({"items": [{"type": "number"}]}),
            OpenAi,
            json!({"type": "array", "items": {"type": "number"}}),
        ),
        (
            json!({"type": "object"}),
            Gemini,
            json!({"type": "string", "description": "a JSON object, as text"}),
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": true}),
            OpenAi,
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": 1}),
        ),
        (
            json!({"type": "string", "format": "uri", "pattern": 7, "minLength": "3"}),
            Gemini,
            json!({"type": "string"}),
        ),
        (json!({"type": "string", "nullable": true}), OpenAi, json!({"type": ["string", "null"]})),
        (
            // Zod's own for an address of mail, of which a provider's engine may lack the lookahead.
            json!({"type": "string", "description": "Whom.", "pattern": r"^(?!\.)[\w+.-]+@\w+\.\w{2,}$"}),
            OpenAi,
            json!({"type": "string", "description": r"Whom. (matches the pattern ^(?!\.)[\w+.-]+@\w+\.\w{2,}$)"}),
        ),
        (
            json!({"type": "string", "pattern": r"\d+"}),
            Gemini,
            json!({"type": "string", "description": r"matches the pattern \d+"}),
        ),
        (json!({"type": "string", "pattern": "x".repeat(201)}), OpenAi, json!({"type": "string"})),
    ] {
        assert_eq!(argument(schema.clone(), dialect), expected, "{schema} for {dialect:?}");
    }
}

/// A regression: Moonshot refuses a whole request for choices without a type, or of another one than that beside them.
#[test]
fn choices_are_of_the_type_beside_them() {
    use SchemaDialect::{Anthropic, OpenAi};
    for (schema, dialect, expected) in [
        (json!({"enum": [1, 2]}), OpenAi, json!({"type": "integer", "enum": [1, 2]})),
        (json!({"enum": [1, 2.5]}), OpenAi, json!({"type": "number", "enum": [1, 2.5]})),
        (
            json!({"type": "string", "enum": ["a", null]}),
            OpenAi,
            json!({"type": "string", "enum": ["a"]}),
        ),
        (
            json!({"type": ["string", "null"], "enum": ["a", null]}),
            OpenAi,
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}),
            Anthropic,
            json!({"type": "array", "items": {"type": "string"}, "description": "One of: \"a\", \"b\"."}),
        ),
    ] {
        assert_eq!(argument(schema.clone(), dialect), expected, "{schema} for {dialect:?}");
    }
}

/// A regression: Moonshot refuses a whole request for one place without a type, or with `oneOf`.
#[test]
fn each_place_has_a_type_where_a_provider_wants_one() {
    let any = json!({"type": ["string", "number", "boolean", "object", "array", "null"]});
    let word = json!({"type": "string", "description": "x"});
    let mut told = any.clone();
    told["description"] = json!("The mode.");
    for (schema, expected) in [
        (json!({"description": "The mode.", "default": 1}), told),
        (json!(true), any.clone()),
        (json!({"type": "array", "default": []}), json!({"type": "array", "items": any})),
        (
            json!({"oneOf": [{"type": "string"}, {"description": "x"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": any["type"], "description": "x"}]}),
        ),
        (
            json!({"enum": ["a", 1]}),
            json!({"type": any["type"], "description": "One of: \"a\", 1."}),
        ),
        (
            json!({"type": "object", "additionalProperties": {}}),
            json!({"type": "object", "properties": {}}),
        ),
        (json!({"allOf": [{"description": "x"}, {"type": "string"}]}), word),
        (json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]})),
        (
            json!({"type": ["string", "null"], "enum": ["a", null], "description": "x"}),
            json!({"description": "x", "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ),
        (
            json!({"type": ["string", "number"], "default": 1}),
            json!({"type": ["string", "number"]}),
        ),
    ] {
        assert_eq!(argument(schema.clone(), SchemaDialect::Moonshot), expected, "{schema}");
    }
}

#[test]
fn keywords_with_a_value_that_they_can_not_have_are_left_out_and_noted() {
    let fields = [
        ("minLength", json!(-1)),
        ("maxLength", json!(2.5)),
        ("minItems", json!("1")),
        ("maxItems", json!(1e300)),
        ("minProperties", json!([])),
        ("maxProperties", json!(18_446_744_073_709_551_615_u64)),
        ("minimum", json!("0")),
        ("maximum", json!(null)),
        ("multipleOf", json!(0)),
        ("exclusiveMinimum", json!("x")),
        ("exclusiveMaximum", json!({})),
        ("uniqueItems", json!(1)),
        ("pattern", json!(7)),
        ("title", json!(["x"])),
        ("examples", json!("x")),
        ("readOnly", json!("yes")),
    ];
    for dialect in ALL {
        for (keyword, value) in &fields {
            let mut schema = json!({"type": "string"});
            schema[*keyword] = value.clone();
            let mut whole = json!({"type": "object", "properties": {}});
            whole["properties"]["a"] = schema;
            let cleaned = clean(whole, dialect);
            assert_eq!(cleaned.schema["properties"]["a"], json!({"type": "string"}), "{keyword}");
            let is_known = dialect != SchemaDialect::Gemini
                || ![
                    "multipleOf",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                    "uniqueItems",
                    "examples",
                    "readOnly",
                ]
                .contains(keyword);
            assert_eq!(
                cleaned.notes.iter().any(|note| note.contains(keyword)),
                is_known,
                "{keyword}"
            );
        }
    }
    let good = json!({"type": "string", "minLength": 0, "maxLength": 3.0});
    let kept = argument(good, SchemaDialect::Anthropic);
    assert_eq!(kept, json!({"type": "string", "minLength": 0, "maxLength": 3}));
    let flags = json!({"type": "number", "exclusiveMinimum": true, "minimum": "x", "exclusiveMaximum": false});
    assert_eq!(argument(flags, SchemaDialect::OpenAi), json!({"type": "number"}));
}

#[test]
fn additional_properties_and_names_are_kept_where_a_provider_takes_them() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}, "b c": {"type": "string"}, "gone": false},
        "required": ["a", "b c", "missing", 7],
        "additionalProperties": false,
        "if": {"properties": {"a": {}}},
    });
    let openai = clean(schema.clone(), SchemaDialect::OpenAi);
    assert_eq!(openai.schema["additionalProperties"], json!(false));
    assert_eq!(openai.schema["properties"]["a"]["additionalProperties"], json!({"type": "string"}));
    assert_eq!(openai.schema["required"], json!(["a", "b c"]));
    assert!(openai.schema["properties"].get("gone").is_none() && openai.schema.get("if").is_none());
    assert_eq!(
        openai.notes.into_iter().collect::<Vec<_>>(),
        ["conditions between arguments are left to the server"]
    );
    let anthropic = clean(schema.clone(), SchemaDialect::Anthropic);
    assert_eq!(anthropic.schema["required"], json!(["a"]));
    assert!(anthropic.notes.contains("the argument `b c` can't be named to this provider"));
    let gemini = clean(schema, SchemaDialect::Gemini).schema.to_string();
    assert!(!gemini.contains("additionalProperties"), "{gemini}");
}

#[test]
fn what_is_too_deep_or_too_many_is_left_open() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let cleaned = clean(json!({"properties": {"x": deep}}), SchemaDialect::OpenAi);
    assert!(cleaned.schema.to_string().len() < 1500 && !cleaned.notes.is_empty());
    let choices: Vec<usize> = (0..5000).collect();
    assert_eq!(
        argument(json!({"type": "integer", "enum": choices}), SchemaDialect::OpenAi),
        json!({"type": "integer"})
    );
}

#[test]
fn a_schema_that_multiplies_itself_is_left_out() {
    let refs: Map<String, Value> =
        (0..500).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/Big"}))).collect();
    let long = "x".repeat(40_000);
    let many: Vec<Value> = (0..100).map(|n| json!(format!("{n}{}", "y".repeat(300)))).collect();
    for big in [
        json!({"type": "string", "default": long}),
        json!({"type": "string", "examples": [long]}),
        json!({"type": "string", "pattern": long}),
        json!({"type": "string", "const": long}),
        json!({"type": "string", "enum": many}),
        json!({"enum": [{"a": long}, 1]}),
        json!({"type": "object", "properties": {long.clone(): {"type": "string"}}}),
        json!({"type": "object", "description": long, "title": long}),
        json!({"anyOf": vec![json!({}); 4000]}),
        json!({"allOf": vec![json!({"title": "z"}); 2000]}),
        json!({"type": "array", "prefixItems": vec![json!(true); 5000]}),
    ] {
        let schema = json!({"type": "object", "properties": refs, "$defs": {"Big": big}});
        for dialect in ALL {
            let cleaned = clean(schema.clone(), dialect);
            let bytes = cleaned.schema.to_string().len();
            assert!(bytes < 24 << 10, "{bytes} for {dialect:?}: {}", &big.to_string()[..60]);
        }
    }
    // A union at the top is merged without a copy of each branch.
    let branches = vec![json!({"$ref": "#/$defs/Big"}); 3000];
    let big = json!({"properties": {"a": {"type": "string", "default": long}}});
    let cleaned = clean(json!({"oneOf": branches, "$defs": {"Big": big}}), SchemaDialect::OpenAi);
    assert!(cleaned.is_cut && cleaned.notes.contains(TOO_MANY), "{:?}", cleaned.notes);
    assert_eq!(cleaned.schema["properties"]["a"], json!({"type": "string"}));
}

#[test]
fn a_large_schema_keeps_the_arguments_that_fit() {
    let fields: Map<String, Value> = (0..300)
        .map(|n| (format!("field_{n}"), json!({"type": "string", "description": "d".repeat(200)})))
        .collect();
    let cleaned =
        clean(json!({"properties": fields, "required": ["field_0"]}), SchemaDialect::Anthropic);
    let kept = cleaned.schema["properties"].as_object().unwrap().len();
    assert!((40..300).contains(&kept) && cleaned.is_cut, "{kept}");
    assert_eq!(cleaned.schema["required"], json!(["field_0"]));
}
