//! Forms that a server asks people to fill in, a field at a time: with buttons where it has few answers, else with
//! words. Pure.

use serde_json::{Map, Value};

use super::secrets::{asks_for_secret, is_secret_name};
use super::typed::{PickRule, TextFormat, WordsRule};

/// Most answers of a question with buttons; those for "no answer" come on top.
const OPTIONS: usize = 3;
/// Most answers that can be chosen from by their number.
const LISTED: usize = 30;
/// Most questions that are asked of one form.
const FIELDS: usize = 8;
/// Characters of a field's name in a sentence.
const NAME: usize = 40;
/// A field that a person is asked about.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormField {
    /// Name of the field in the answer.
    pub name: String,
    /// The field in words, of the server.
    pub label: String,
    /// True if the field may not be left out.
    pub is_required: bool,
    /// The way in which it is answered.
    pub answers: FieldAnswers,
}

/// The way in which a field is answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldAnswers {
    /// With a button: values, each with its label.
    Buttons(Vec<(Value, String)>),
    /// With a message, which this rule checks.
    Words(WordsRule),
}

/// The questions of a form, in its order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReadForm {
    /// Fields that people are asked about.
    pub fields: Vec<FormField>,
    /// Fields that are not required and not asked: people answer few questions.
    pub left_out: usize,
}

/// The form is declined, because people can't be asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormRefusal {
    /// Secrets are typed into no chat.
    #[error(
        "its form asks for a secret (`{0}`), which belongs into a Secret that the Repo names and never into a thread"
    )]
    Secret(String),
    /// The form has a field of a type that people can't be asked for: an object, a file, or an unknown one.
    #[error("its form wants something that can't be said with buttons or words (`{0}`)")]
    Field(String),
    /// The form requires too many fields.
    #[error("its form requires more than {FIELDS} fields")]
    Long,
}

/// The fields that people are asked about: those that the form requires, and others while there is room. `message` is
/// what the server says of it.
///
/// # Errors
/// When the form asks for a secret, or for more than a person can say in a thread.
pub(super) fn read_form(message: &str, schema: &Value) -> Result<ReadForm, FormRefusal> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some((name, _)) = properties.iter().find(|(name, field)| wants_secret(name, field)) {
        return Err(FormRefusal::Secret(plain_name(name)));
    }
    let words = properties.iter().find(|(_, field)| takes_words(field));
    if let Some((name, _)) = words.filter(|_| asks_for_secret(message)) {
        return Err(FormRefusal::Secret(plain_name(name)));
    }
    let mut fields = Vec::new();
    for (name, field) in properties {
        let is_required = required.contains(&name.as_str());
        match read_answers(field) {
            Some(answers) => {
                let label = write_label(name, field);
                fields.push(FormField { name: name.clone(), label, is_required, answers });
            }
            None if is_required => return Err(FormRefusal::Field(plain_name(name))),
            None => {}
        }
    }
    if fields.is_empty() && !properties.is_empty() {
        let first = properties.keys().next().map(|name| plain_name(name));
        return Err(FormRefusal::Field(first.unwrap_or_default()));
    }
    let required = fields.iter().filter(|field| field.is_required).count();
    let mut room = FIELDS.checked_sub(required).ok_or(FormRefusal::Long)?;
    fields.retain(|field| {
        let is_asked = field.is_required || room > 0;
        room = room.saturating_sub(usize::from(is_asked && !field.is_required));
        is_asked
    });
    Ok(ReadForm { left_out: properties.len() - fields.len(), fields })
}

/// A name of a stranger, as it may stand in a sentence.
fn plain_name(name: &str) -> String {
    let fits = |letter: &char| letter.is_alphanumeric() || "_-.".contains(*letter);
    name.chars().filter(fits).take(NAME).collect()
}

fn read_answers(field: &Value) -> Option<FieldAnswers> {
    let number = |name: &str| field[name].as_f64();
    let count = |name: &str| field[name].as_u64().and_then(|count| usize::try_from(count).ok());
    let pick = |options: Vec<(Value, String)>, many| {
        let (least, most) = (count("minItems"), count("maxItems"));
        WordsRule::Pick(PickRule { options, many, least, most })
    };
    if field["type"] == "array" {
        let options = read_options(&field["items"])?;
        return Some(FieldAnswers::Words(pick(options, true)));
    }
    if let Some(options) = read_options(field) {
        let few = options.len() <= OPTIONS;
        return Some(if few {
            FieldAnswers::Buttons(options)
        } else {
            FieldAnswers::Words(pick(options, false))
        });
    }
    let rule = match field["type"].as_str()? {
        "string" => WordsRule::Text {
            least: count("minLength"),
            most: count("maxLength"),
            format: TextFormat::named(field["format"].as_str()),
        },
        kind @ ("number" | "integer") => WordsRule::Number {
            whole: kind == "integer",
            least: number("minimum"),
            most: number("maximum"),
        },
        _ => return None,
    };
    Some(FieldAnswers::Words(rule))
}

fn read_options(field: &Value) -> Option<Vec<(Value, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let titled = |values: &[Value]| {
        let option = |one: &Value| {
            let value = one.get("const")?;
            Some((value.clone(), text(&one["title"]).or_else(|| text(value))?))
        };
        values.iter().map(option).collect::<Option<Vec<_>>>()
    };
    let options: Vec<(Value, String)> = if field["type"] == "boolean" {
        vec![(Value::Bool(true), "Yes".to_owned()), (Value::Bool(false), "No".to_owned())]
    } else if let Some(values) = field["enum"].as_array() {
        let names = field["enumNames"].as_array();
        let name = |at: usize| names.and_then(|names| text(names.get(at)?));
        let option =
            |(at, value): (usize, &Value)| Some((value.clone(), name(at).or_else(|| text(value))?));
        values.iter().enumerate().map(option).collect::<Option<_>>()?
    } else {
        titled(field["oneOf"].as_array().or_else(|| field["anyOf"].as_array())?)?
    };
    (1..=LISTED).contains(&options.len()).then_some(options)
}

fn write_label(name: &str, field: &Value) -> String {
    let title = field["title"].as_str().unwrap_or(name);
    match field["description"].as_str() {
        Some(about) if about != title => format!("{title}: {about}"),
        _ => title.to_owned(),
    }
}

/// True for a field that takes words, and speaks of a secret anywhere.
fn wants_secret(name: &str, field: &Value) -> bool {
    let text = |key: &str| field[key].as_str().unwrap_or_default();
    let is_named = [name, text("title")].into_iter().any(is_secret_name);
    let is_asked = is_named || asks_for_secret(text("description"));
    takes_words(field) && (is_asked || field["format"] == "password" || field["writeOnly"] == true)
}

/// True unless there is a list of answers to choose from.
fn takes_words(field: &Value) -> bool {
    read_options(field).is_none() && field["type"] != "array"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn form(properties: Value, required: &[&str]) -> Result<ReadForm, FormRefusal> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        read_form("Please fill this in.", &schema)
    }

    fn show(field: &FormField) -> String {
        let answers = match &field.answers {
            FieldAnswers::Buttons(options) => {
                let options = options.iter().map(|(value, words)| format!("{words}={value}"));
                options.collect::<Vec<_>>().join(" ")
            }
            FieldAnswers::Words(rule) => rule.to_string(),
        };
        let must = if field.is_required { "" } else { "?" };
        format!("{}{must}: {answers}", field.label)
    }

    #[test]
    fn few_answers_become_buttons_in_each_form_of_the_protocol_and_others_words() {
        let form = form(
            json!({
                "sure": {"type": "boolean", "title": "Sure?", "description": "It is sent at once"},
                "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
                "color": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]},
                "note": {"type": "string", "maxLength": 5},
                "age": {"type": "integer", "minimum": 1, "maximum": 99},
                "pet": {"type": "string", "enum": ["a", "b", "c", "d"]},
                "tags": {"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "x", "title": "X-ray"}]}},
                "odd": {"type": "hologram"},
            }),
            &["sure"],
        )
        .unwrap();
        let shown: Vec<_> = form.fields.iter().map(show).collect();
        let expected = [
            "Sure?: It is sent at once: Yes=true No=false",
            "size?: Small=\"s\" Medium=\"m\"",
            "color?: Red=\"#f00\"",
            "note?: a text of at most 5 characters",
            "age?: a whole number from 1 to 99",
            "pet?: one of these, by number or name: 1 a, 2 b, 3 c, 4 d",
            "tags?: at most 2 of these, by number or name, separated by commas: 1 X-ray",
        ];
        assert_eq!((shown, form.left_out), (expected.map(str::to_owned).to_vec(), 1));
    }

    #[test]
    fn a_confirmation_has_no_fields() {
        assert_eq!(form(json!({}), &[]), Ok(ReadForm { fields: Vec::new(), left_out: 0 }));
    }

    #[test]
    fn few_questions_are_asked_and_the_required_ones_first() {
        let fields = |count: usize| -> Value {
            let fields: Map<String, Value> =
                (0..count).map(|n| (format!("f{n:02}"), json!({"type": "boolean"}))).collect();
            Value::Object(fields)
        };
        let read = form(fields(12), &["f11"]).unwrap();
        let names: Vec<_> = read.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["f00", "f01", "f02", "f03", "f04", "f05", "f06", "f11"]);
        assert_eq!(read.left_out, 4);
        let all: Vec<String> = (0..9).map(|n| format!("f{n:02}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(form(fields(9), &all), Err(FormRefusal::Long));
    }

    #[test]
    fn a_form_that_no_words_can_answer_is_declined() {
        let odd = |name: &str| json!({name: {"type": "object", "properties": {}}});
        assert_eq!(form(odd("why"), &["why"]), Err(FormRefusal::Field("why".into())));
        assert_eq!(
            form(odd("why"), &[]),
            Err(FormRefusal::Field("why".into())),
            "nothing is left to ask"
        );
        let options: Vec<String> = (0..31).map(|n| n.to_string()).collect();
        let many = json!({"n": {"type": "array", "items": {"enum": options}}});
        assert_eq!(form(many, &["n"]), Err(FormRefusal::Field("n".into())));
    }

    #[test]
    fn a_form_that_asks_for_a_secret_is_declined_whatever_else_it_asks() {
        for (name, field) in [
            ("password", json!({"type": "string"})),
            ("value", json!({"type": "string", "title": "Your API key"})),
            ("pin", json!({"type": "string", "format": "password"})),
            (
                "value",
                json!({"type": "string", "description": "Paste a GitHub token with `repo`."}),
            ),
        ] {
            let mut properties = json!({"sure": {"type": "boolean"}});
            properties[name] = field;
            assert_eq!(form(properties, &[]), Err(FormRefusal::Secret(name.into())));
        }
        let harmless = json!({"keep_token": {"type": "boolean"}});
        assert_eq!(form(harmless, &[]).map(|form| form.fields.len()), Ok(1));
        let plain = |field: Value| json!({"properties": {"value": field}});
        let message = "Your session is over: enter your password to go on.";
        let asked = read_form(message, &plain(json!({"type": "string"})));
        assert_eq!(asked, Err(FormRefusal::Secret("value".into())));
        let chosen = read_form("Renew the token?", &plain(json!({"type": "boolean"})));
        assert_eq!(chosen.map(|form| form.fields.len()), Ok(1), "no words are typed");
    }
}
