//! Forms that a server asks people to fill in, as far as buttons can. Pure.

use serde_json::{Map, Value};

/// Answers of one question: a button for "no answer" comes on top.
const OPTIONS: usize = 4;
/// Fields of a form.
const FIELDS: usize = 5;
/// Characters of a field's name in a sentence.
const NAME: usize = 40;
/// Words in the name of a field that asks for a secret.
const SECRETS: [&str; 10] = [
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "apikey",
    "credential",
    "privatekey",
    "cvv",
    "onetimecode",
];

/// A field with answers to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceField {
    /// Name in the answer.
    pub name: String,
    /// The field in words, of the server.
    pub label: String,
    /// Values, each with its words.
    pub options: Vec<(Value, String)>,
}

/// A form that is declined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormRefusal {
    /// Secrets are typed into no chat.
    #[error(
        "its form asks for a secret (`{0}`), which belongs into a Secret that the Repo names and never into a thread"
    )]
    Secret(String),
    /// Text, a number, or too many answers.
    #[error("its form wants more than buttons can say (`{0}`)")]
    Field(String),
    /// Too many fields.
    #[error("its form has more than {FIELDS} fields")]
    Long,
}

/// The fields that people are asked about, in the form's order. Others that the form does not require are left out.
///
/// # Errors
/// When the form asks for a secret, or can't be answered with buttons.
pub fn read_form(schema: &Value) -> Result<Vec<ChoiceField>, FormRefusal> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some((name, _)) = properties.iter().find(|(name, field)| wants_secret(name, field)) {
        return Err(FormRefusal::Secret(plain_name(name)));
    }
    let mut fields = Vec::new();
    for (name, field) in properties {
        match read_options(field) {
            Some(options) => {
                let label = write_label(name, field);
                fields.push(ChoiceField { name: name.clone(), label, options });
            }
            None if required.contains(&name.as_str()) => {
                return Err(FormRefusal::Field(plain_name(name)));
            }
            None => {}
        }
    }
    if fields.is_empty() && !properties.is_empty() {
        let first = properties.keys().next().map(|name| plain_name(name));
        return Err(FormRefusal::Field(first.unwrap_or_default()));
    }
    if fields.len() > FIELDS { Err(FormRefusal::Long) } else { Ok(fields) }
}

/// A name of a stranger, as it may stand in a sentence.
fn plain_name(name: &str) -> String {
    let fits = |letter: &char| letter.is_alphanumeric() || "_-.".contains(*letter);
    name.chars().filter(fits).take(NAME).collect()
}

fn read_options(field: &Value) -> Option<Vec<(Value, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let options: Vec<(Value, String)> = if field["type"] == "boolean" {
        vec![(Value::Bool(true), "Yes".to_owned()), (Value::Bool(false), "No".to_owned())]
    } else if let Some(values) = field["enum"].as_array() {
        let names = field["enumNames"].as_array();
        let name = |at: usize| names.and_then(|names| text(names.get(at)?));
        let option =
            |(at, value): (usize, &Value)| Some((value.clone(), name(at).or_else(|| text(value))?));
        values.iter().enumerate().map(option).collect::<Option<_>>()?
    } else {
        let values = field["oneOf"].as_array()?;
        let option = |one: &Value| {
            let value = one.get("const")?;
            Some((value.clone(), text(&one["title"]).or_else(|| text(value))?))
        };
        values.iter().map(option).collect::<Option<_>>()?
    };
    let fits = field["type"] != "array" && (1..=OPTIONS).contains(&options.len());
    fits.then_some(options)
}

fn write_label(name: &str, field: &Value) -> String {
    let title = field["title"].as_str().unwrap_or(name);
    match field["description"].as_str() {
        Some(about) if about != title => format!("{title}: {about}"),
        _ => title.to_owned(),
    }
}

fn wants_secret(name: &str, field: &Value) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
    };
    let is_text = read_options(field).is_none();
    let names = [name, field["title"].as_str().unwrap_or_default()].map(plain);
    let is_named = names.iter().any(|name| SECRETS.iter().any(|secret| name.contains(secret)));
    is_text && (is_named || field["format"] == "password" || field["writeOnly"] == true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn form(properties: Value, required: &[&str]) -> Result<Vec<ChoiceField>, FormRefusal> {
        read_form(&json!({"type": "object", "properties": properties, "required": required}))
    }

    #[test]
    fn booleans_and_enums_become_buttons_in_each_form_of_the_protocol() {
        let fields = form(
            json!({
                "sure": {"type": "boolean", "title": "Sure?", "description": "It is sent at once"},
                "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
                "color": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]},
                "note": {"type": "string"},
            }),
            &["sure"],
        )
        .unwrap();
        let shown: Vec<_> = fields
            .iter()
            .map(|field| {
                let options = field.options.iter().map(|(value, words)| format!("{words}={value}"));
                format!("{}: {}", field.label, options.collect::<Vec<_>>().join(" "))
            })
            .collect();
        let expected = [
            "Sure?: It is sent at once: Yes=true No=false",
            "size: Small=\"s\" Medium=\"m\"",
            "color: Red=\"#f00\"",
        ];
        assert_eq!(shown, expected);
        assert_eq!(form(json!({}), &[]), Ok(Vec::new()), "a confirmation");
    }

    #[test]
    fn a_form_that_buttons_can_not_answer_is_declined() {
        let text = |name: &str| json!({name: {"type": "string"}});
        assert_eq!(form(text("why"), &["why"]), Err(FormRefusal::Field("why".into())));
        assert_eq!(
            form(text("why"), &[]),
            Err(FormRefusal::Field("why".into())),
            "nothing is left to ask"
        );
        let many = json!({"n": {"type": "string", "enum": ["1", "2", "3", "4", "5"]}});
        assert_eq!(form(many, &["n"]), Err(FormRefusal::Field("n".into())));
        let fields: Map<String, Value> =
            (0..6).map(|n| (format!("f{n}"), json!({"type": "boolean"}))).collect();
        assert_eq!(form(Value::Object(fields), &[]), Err(FormRefusal::Long));
    }

    #[test]
    fn a_form_that_asks_for_a_secret_is_declined_whatever_else_it_asks() {
        for (name, field) in [
            ("password", json!({"type": "string"})),
            ("value", json!({"type": "string", "title": "Your API key"})),
            ("pin", json!({"type": "string", "format": "password"})),
        ] {
            let mut properties = json!({"sure": {"type": "boolean"}});
            properties[name] = field;
            assert_eq!(form(properties, &[]), Err(FormRefusal::Secret(name.into())));
        }
        let harmless = json!({"keep_token": {"type": "boolean"}});
        assert_eq!(form(harmless, &[]).map(|fields| fields.len()), Ok(1));
    }
}
